"""What each object shows of itself: one file an object, from the object to blocks, without drawing anything."""
