"""Boxes as containers of a Docker engine on this machine, each under our own supervisor as its process 1."""
