from types import SimpleNamespace

import pytest

from tinytpl import Template, TemplateError


def test_values_and_parts():
    template = Template("{{ user.name }} {{ user.tags.1 }} {{ point.x }}")
    assert template.render(user={"name": "Ada", "tags": ["a", "b"]}, point=SimpleNamespace(x=3)) == "Ada b 3"


def test_for():
    assert Template("{% for n in ns %}<{{ n }}>{% end %}").render(ns=[1, 2]) == "<1><2>"


def test_if_else():
    template = Template("{% if ok %}yes{% else %}no{% end %}")
    assert template.render(ok=True) == "yes"
    assert template.render(ok=[]) == "no"


def test_nested_blocks():
    template = Template("{% for row in rows %}{% if row %}{% for n in row %}{{ n }}{% end %};{% end %}{% end %}")
    assert template.render(rows=[[1, 2], [], [3]]) == "12;3;"


def test_filters():
    assert Template("{{ x|trim|upper }}").render(x=" tea ") == "TEA"
    assert Template("{{ xs|join }}").render(xs=[1, 2]) == "1, 2"


def test_values_are_escaped():
    html = Template("<b>{{ x }}</b>").render(x="<i> & \"q\" 's'")
    assert html == "<b>&lt;i&gt; &amp; &quot;q&quot; &#x27;s&#x27;</b>"


def test_plain_text():
    assert Template("{{ x }}", autoescape=False).render(x="<&>") == "<&>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n{{ nope }}", "line 2: unknown name 'nope'"),
        ("{{ x.y }}", "line 1: no 'y' in x.y"),
        ("{{ x|nope }}", "line 1: unknown filter 'nope'"),
        ("{% while x %}", "line 1: unknown tag 'while x'"),
        ("\n\n{% if x %}", "line 3: a block has no 'end'"),
        ("{% end %}", "line 1: 'end' without a beginning"),
        ("{% else %}", "line 1: 'else' without 'if'"),
    ],
    ids=["name", "part", "filter", "tag", "open", "end", "else"],
)
def test_errors(text, message):
    with pytest.raises(TemplateError) as caught:
        Template(text).render(x=1)
    assert str(caught.value) == message
