"""Parts of the views of masks, checkpoints and retention: each a card, or what stands in one."""
