"""One module for each tool that scripts/scoreboard compares.

A module names what its environment installs (``REQUIREMENTS``) and has one function, ``gradients(model_path, inputs, cotangents,
weights)``: the gradients of sum(outputs * cotangents) by name, for every floating-point input and the initializers named in
``weights``. ``shared.py`` helps; ``worker.py`` runs a tool in its own environment.
"""
