"""The bus: workers, tasks, dispatch, messages and questions."""
