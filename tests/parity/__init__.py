"""Our networks against the official packages': same checkpoints, same tokens.

`make goldens` runs the official packages in an environment of their own and writes goldens/;
the tests here hold our code to them. Both sides share cases.py and material.py.
"""
