"""Templates that never end, or want more memory than there is, end soon and in words; those that end are not changed."""

from __future__ import annotations

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from anyformer.text.chat import budget
from anyformer.text.chat.budget import SLOT, TemplateLimit, weight
from anyformer.text.chat.program import TemplateRefusal, run
from anyformer.text.errors import DataError

GIVEN = {"messages": [{"role": "user", "content": "a < b"}], "tools": None, "add_generation_prompt": True}


def doubled(start, more, after):
    """A template that makes a value of itself twice, sixty times."""
    return f"{{% set n = namespace(x={start}) %}}{{% for i in range(60) %}}{{% set n.x = {more} %}}{{% endfor %}}{after}"


PAIRS, TUPLES = "[n.x, n.x]", "(n.x, n.x)"
ENDLESS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in range(99) recursive %}{% if loop.depth < 4 %}{{ loop(range(99999)) }}{% endif %}{% endfor %}",
    "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{{ 'a'.center(10**9) }}",
    "{{ 'a'|center(10**9) }}",
    "{% filter center(10**9) %}{% endfilter %}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ 'a'['zfill'](10**9) }}",
    "{{ 'a'|attr('rjust')(10**9) }}",
    "{{ ['a']|map('center', 10**9) }}",
    "{{ 10**100000000 }}",
    "{{ (-3)**(10**9) }}",
    "{{ 'a' * 10**10 }}",
    "{{ 10**10 * [1] }}",
    "{{ 'a'.encode() * 10**10 }}",
    doubled(3, "n.x * n.x", ""),
    doubled("'a'", "n.x ~ n.x", ""),
    doubled("'a'", "n.x + n.x", ""),
    doubled("[1]", "n.x + n.x", ""),
    doubled("[1]", PAIRS, "{{ n.x }}"),
    doubled("[1]", PAIRS, "{{ n.x|tojson }}"),
    doubled("[1]", PAIRS, "{{ n.x|string }}"),
    doubled("[1]", PAIRS, "{{ n.x == [1] }}"),
    doubled("[1]", PAIRS, "{{ n.x is eq(1) }}"),
    doubled("[1]", PAIRS, "{{ 1 in n.x }}"),
    doubled("(1,)", TUPLES, "{{ {n.x: 1} }}"),
    doubled("(1,)", TUPLES, "{{ {}[n.x] }}"),
    doubled("(1,)", TUPLES, "{{ {}.get(n.x) }}"),
    doubled("(1,)", TUPLES, "{{ [n.x]|unique }}"),
    doubled("(1,)", TUPLES, "{{ '%s' % n.x }}"),
    "{{ '%999999999d' % 1 }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '{:999999999}'.format(1) }}",
    "{{ '{:{}}'.format(1, 10**9) }}",
    "{{ '%999999999d'|format(1) }}",
    "{{ '{a:999999999}'.format_map({'a': 1}) }}",
    "{{ ('a' * 99999).replace('a', 'b' * 99999) }}",
    "{{ ('a' * 99999)|replace('a', 'b' * 99999) }}",
    "{{ ('b' * 99999).join(['a'] * 99999) }}",
    "{{ range(99999)|join('b' * 99999) }}",
    "{{ ('\t' * 999999).expandtabs(99999) }}",
    "{{ ('a' * 999999).translate({97: 'b' * 99999}) }}",
    "{{ ('\n' * 999999)|indent(99999) }}",
    "{{ [1]|tojson(indent=10**9) }}",
    "{{ range(9)|slice(10**9) }}",
    "{{ [1]|batch(10**9, 1) }}",
    "{{ 1|round(10**8, 'ceil') }}",
    "{{ ('<!---->' * 500000)|striptags }}",
    "{{ ([[1] * 99999] * 9999)|sum(start=[]) }}",
    "{{ ('a,' * 9999999).split(',') }}",
    "{{ ('ab' * 9999999)|list }}",
    "{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}",
    "{% set x %}{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}{% endset %}",
    "{% set s = 'a' * 9999999 %}{% for i in range(99999) %}{% set t = s[1:] %}{% endfor %}",
]
"""Of each the plain sandbox takes minutes, or gigabytes."""
REFUSED = [
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{{ {'a b': 1}|xmlattr }}",
    "{{ 5|xmlattr }}",
    "{{ {1: 2, 'a': 3}|dictsort }}",
    "{{ lipsum(9) }}",
    "{% include 'x' %}",
    "{{ 2.0**10000 }}",
    "{{ 1 / 0 }}",
    "{{ range(10**9) }}",
    "{{ {[1]: 2} }}",
    "{{ raise_exception('no') }}",
    "{{ raise_exception([1]) }}",
]
UNREADABLE = [
    "{{" + "(" * 40_000,
    "{{ " + "not " * 20_000 + "1 }}",
    "{{ " + "1+" * 20_000 + "1 }}",
    "{% if 1 %}" * 9_000,
    "x" * 100_001,
    "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
    "{{ " + "9" * 5000 + " }}",
    "{{ 'a'" + ".x" * 30_000 + " }}",
]
USUAL = [
    "{% for m in messages if m.role %}{{ loop.index ~ m['content'][1:] ~ loop.length }}{% else %}none{% endfor %}",
    "{{ messages|map(attribute='content')|join(', ') }}{{ [[1], [2]]|sum(start=[]) }}{{ 'a-b'.split('-')|last|upper }}",
    "{{ '%05.1f|%s' % (2.5, 'x') }}{{ '{:>4}{}'.format(1, [2]) }}{{ 'x'|safe ~ '<' }}{{ [1, 1, 2]|unique|list }}{{ 3 * 'ab' }}",
    "{% set n = namespace(a=1) %}{% for i in range(3) %}{% set n.a = n.a * 2 + i %}{% endfor %}{{ n.a }}{{ 2**8 }}{{ 7 % 4 }}",
    "{% macro m(x) %}{{ x }}{{ caller() if caller }}{% endmacro %}{{ m(1) }}{% call m(3) %}c{% endcall %}{{ messages[::-1] }}",
    "{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{{ {'b': 1, 'a': [1, 2, 3, 4, 5, 6, 7, 8, 9]}|dictsort }}{{ 'a' in 'abc' and 2 in (1, 2) and 'x' not in {'y': 1} }}",
    "{% set x %}a{{ 1 }}{% endset %}{{ x }}{{ x is string }}{{ none }}{{ undefined_name }}{{ undefined_name|default('d') }}",
    "{{ ['b', 'a']|sort|first }}{{ ' t '|trim }}{{ 3.14159|round(2) }}{{ 'x\ny'|indent(2) }}{{ [1, 2, 3]|batch(2)|list }}",
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ [3, 200001]|select('gt', 200000)|list }}{{ '7'|int }}",
]


@pytest.fixture
def little(monkeypatch):
    """Limits that are reached soon."""
    monkeypatch.setattr(budget, "STEPS", 5_000)
    monkeypatch.setattr(budget, "SIZE", 1_000_000)


@pytest.mark.parametrize("template", ENDLESS)
def test_what_never_ends_is_refused(template, little):
    with pytest.raises(TemplateLimit, match=r"\Athe tokenizer's chat template .{10,80} for a chat of this size"):
        run(template, GIVEN)


@pytest.mark.parametrize("template", REFUSED)
def test_every_error_is_a_refusal(template):
    with pytest.raises(TemplateRefusal):
        run(template, GIVEN)


@pytest.mark.parametrize("template", UNREADABLE)
def test_what_cannot_be_read_is_refused(template):
    with pytest.raises(DataError, match=r"is no Jinja|at most 100,000 are read"):
        run(template, GIVEN)


@pytest.mark.parametrize("template", USUAL)
def test_what_ends_is_written_as_the_plain_sandbox_writes_it(template):
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.Undefined)
    assert run(template, GIVEN)[0] == plain.from_string(template).render(GIVEN)


def test_a_long_chat_may_take_more(little):
    template = (
        "{% for m in messages %}{% for n in messages %}{{ loop.index if m.content == n.content }}{% endfor %}{% endfor %}"
    )
    chat = [{"role": "user", "content": str(number)} for number in range(60)]
    assert run(template, GIVEN | {"messages": chat})[0] == "".join(str(number + 1) for number in range(60))
    with pytest.raises(TemplateLimit):
        run(template.replace("in messages", "in range(300)"), GIVEN)


def test_a_refusal_is_no_longer_than_a_page():
    with pytest.raises(TemplateRefusal, match=r"\Aa{1000}\Z"):
        run("{{ raise_exception('a' * 999999) }}", GIVEN)


def test_what_stands_at_two_places_weighs_twice():
    once = ["abc", {"d": 1}]
    assert weight([once, once], 10**6) == 2 * weight(once, 10**6) + 3 * SLOT


def test_time_is_looked_at(monkeypatch):
    monkeypatch.setattr("time.thread_time", lambda: clock.pop())
    clock = [10.0, 0.0]
    with pytest.raises(TemplateLimit, match="takes too long"):
        run("{% for i in range(70) %}{% endfor %}", GIVEN)
