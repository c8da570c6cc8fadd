"""The database: one port (`port.py`), the SQL rows of each chapter, and two stores behind them."""
