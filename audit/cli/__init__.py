"""The command line: one module for each command and its help; :mod:`audit.cli.main` lists them."""
