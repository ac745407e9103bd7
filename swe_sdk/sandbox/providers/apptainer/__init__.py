"""Boxes on Apptainer: HPC nodes, no daemon, no root."""
