"""`python -m antiphon`."""

from antiphon.app import main

main()
