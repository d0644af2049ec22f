"""The `rapt` commands that are longer than a call of the library, a module each."""
