import pytest

from semrange import Version, VersionError


def test_parse_and_print():
    assert Version.parse("1.2.3") == Version(1, 2, 3)
    assert str(Version.parse("1")) == "1.0.0"
    assert str(Version.parse("1.0.0-rc.1+build.5")) == "1.0.0-rc.1"


def test_order():
    texts = ["1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "1.0.1", "1.10.0"]
    assert sorted(reversed(texts), key=Version.parse) == texts


@pytest.mark.parametrize("text", ["", "1.", "v1", "1.2.3.4", "1.0-"])
def test_not_a_version(text):
    with pytest.raises(VersionError):
        Version.parse(text)
