import re

import pytest

from pathglob import PatternError, translate


@pytest.mark.parametrize("pattern", ["", "/etc/*", "a**b", "src/**.py", "a[bc"])
def test_bad_patterns(pattern):
    with pytest.raises(PatternError):
        translate(pattern)


def test_result_is_a_regular_expression():
    assert re.fullmatch(translate("a.b+c"), "a.b+c")
    assert not re.fullmatch(translate("a.b"), "axb")
