"""The arguments of each command. They import nothing that computes, so that ``--help`` and wrong usage are told at once."""
