"""Programs of the grader that run in the box: standard library only, and older Pythons than ours."""
