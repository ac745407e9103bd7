"""Jobs in an array of Slurm jobs, each of which runs many of ours."""
