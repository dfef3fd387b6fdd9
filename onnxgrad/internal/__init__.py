"""What the package is made of and no user imports: files, late functions, refusals, arguments, words, the mode that is on."""
