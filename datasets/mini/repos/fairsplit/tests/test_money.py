import unittest
from decimal import Decimal

from fairsplit import CurrencyMismatch, Money, percentage, round_half_away


class MoneyTest(unittest.TestCase):
    def test_arithmetic(self):
        self.assertEqual(Money(150, "EUR") - Money(200, "EUR"), Money(-50, "EUR"))
        self.assertLess(Money(1, "EUR"), Money(2, "EUR"))

    def test_currencies_do_not_mix(self):
        with self.assertRaises(CurrencyMismatch):
            Money(1, "EUR") + Money(1, "USD")

    def test_text(self):
        self.assertEqual(str(Money(-5, "EUR")), "-0.05 EUR")
        self.assertEqual(str(Money(1200, "JPY")), "1200 JPY")
        self.assertEqual(str(Money(1234, "KWD")), "1.234 KWD")

    def test_total(self):
        self.assertEqual(Money.total([Money(1, "EUR"), Money(2, "EUR")]), Money(3, "EUR"))
        self.assertEqual(Money.total([], "EUR"), Money(0, "EUR"))
        with self.assertRaises(ValueError):
            Money.total([])


class RoundingTest(unittest.TestCase):
    def test_halves_go_away_from_zero(self):
        self.assertEqual(round_half_away(Decimal("2.5")), 3)
        self.assertEqual(round_half_away(Decimal("-2.5")), -3)

    def test_percentage(self):
        self.assertEqual(percentage(Money(1000, "EUR"), "7.5"), Money(75, "EUR"))
        with self.assertRaises(TypeError):
            percentage(Money(1000, "EUR"), 7.5)
