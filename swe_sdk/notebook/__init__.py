"""Reprs, plots and progress: what people look at. Heavy packages are imported where they are used."""
