"""What agents share that run as one long command in the box: how they are started, watched and asked."""
