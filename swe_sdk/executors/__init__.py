"""Where jobs run: in this process, on the nodes of a Ray cluster, in an array of Slurm jobs."""
