import unittest

from linewrap import wrap


class WrapTest(unittest.TestCase):
    def test_fits(self):
        self.assertEqual(wrap("one two", 10), ["one two"])

    def test_breaks_between_words(self):
        self.assertEqual(wrap("one two three", 8), ["one two", "three"])

    def test_space_counts_once(self):
        self.assertEqual(wrap(" a \n b ", 5), ["a b"])

    def test_nothing(self):
        self.assertEqual(wrap("  ", 5), [])

    def test_no_width(self):
        self.assertRaises(ValueError, wrap, "a", 0)
