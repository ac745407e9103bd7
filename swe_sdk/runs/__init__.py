"""Runs as people use them: started, resumed, looked at."""
