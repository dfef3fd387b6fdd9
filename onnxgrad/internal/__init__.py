"""What the package is made of and no user imports: files, late functions, refusals, signatures, the mode that is on."""
