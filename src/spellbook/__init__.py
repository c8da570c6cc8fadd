"""The import names of the worker integration contract. The code behind them is `shiftboss`."""
