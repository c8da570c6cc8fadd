"""Its place puts this folder on the import path of the tests below it."""
