"""The command line: a module a command, its help beside it; :mod:`audit.cli.main` lists them."""
