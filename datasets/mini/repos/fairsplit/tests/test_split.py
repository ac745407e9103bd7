import unittest

from fairsplit import Money, allocate, split_evenly


def eur(*minors):
    return [Money(minor, "EUR") for minor in minors]


class AllocateTest(unittest.TestCase):
    def test_exact_division(self):
        self.assertEqual(allocate(Money(1000, "EUR"), [70, 30]), eur(700, 300))

    def test_first_shares_take_what_is_left(self):
        self.assertEqual(allocate(Money(100, "EUR"), [1, 1, 1]), eur(34, 33, 33))
        self.assertEqual(allocate(Money(5, "EUR"), [1, 1, 1]), eur(2, 2, 1))

    def test_zero_ratio_gets_nothing(self):
        self.assertEqual(allocate(Money(100, "EUR"), [0, 1, 1, 1]), eur(0, 34, 33, 33))

    def test_bad_ratios(self):
        for ratios in ([], [0, 0], [1, -1]):
            with self.assertRaises(ValueError):
                allocate(Money(100, "EUR"), ratios)


class SplitEvenlyTest(unittest.TestCase):
    def test_shares_differ_by_one_at_most(self):
        self.assertEqual(split_evenly(Money(11, "EUR"), 4), eur(3, 3, 3, 2))

    def test_at_least_one_part(self):
        with self.assertRaises(ValueError):
            split_evenly(Money(11, "EUR"), 0)
