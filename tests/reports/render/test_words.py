import pytest

from reports.render.words import code, counted, plain, sentences, spans, visible


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "round", "1 round"),
        (3, "round", "3 rounds"),
        (0, "cell", "0 cells"),
        (1, "process", "1 process"),
        (4, "process", "4 processes"),
        (1500, "request", "1,500 requests"),
    ],
)
def test_a_number_and_its_noun_agree(number: int, noun: str, text: str):
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("page-range", "`page-range`"),
        ("trtllm:~/a b@HEAD", "`trtllm:~/a b@HEAD`"),
        ("a`b", "`` a`b ``"),
        ("`a``b`", "``` `a``b` ```"),
    ],
)
def test_code_ends_where_the_text_does(text: str, shown: str):
    assert code(text) == shown


def test_each_arm_has_its_sentence():
    origins = {"trtllm:x": "commit 1, sha256 2", "file:`.py": "a file by itself, sha256 3"}

    assert sentences({}) == []
    assert sentences(origins) == [
        "`trtllm:x`: commit 1, sha256 2.",
        "`` file:`.py ``: a file by itself, sha256 3.",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a plain sentence, 5.00x (4.5 to 5.5).", "a plain sentence, 5.00x (4.5 to 5.5)."),
        ("a_b _c_ *d* ~e~", "a_b \\_c\\_ \\*d\\* \\~e\\~"),
        ("[a](b) ![c](d)", "\\[a](b) !\\[c](d)"),
        ("<b>&amp; & co", "&lt;b>&amp;amp; & co"),
        ("a|b\\c", "a\\|b\\\\c"),
        # An empty character keeps GitHub from making a link or a mention of it.
        ("@team a@b #12 # 3", "@\u200bteam a@\u200bb #\u200b12 # 3"),
        ("https://x www.y", "https:\u200b//x www.\u200by"),
        ("$x$ :tada: GH-12 at 05:06:07", "\\$x\\$ :\u200btada: GH-\u200b12 at 05:06:07"),
        # What is code stays code, and nothing in it is taken for anything.
        ("`@team <b> #1` _x_", "`@team <b> #1` \\_x\\_"),
        ("`` a`b `` c` d", "`` a`b `` c\\` d"),
        # No new paragraph, heading, list, quotation or rule.
        ("a\n# b\r\n- c", "a # b - c"),
        ("# a", "\\# a"),
        ("- a", "\\- a"),
        ("1. a", "1\\. a"),
        ("> a", "\\> a"),
        ("---", "\\---"),
        ("-1 %", "-1 %"),
    ],
)
def test_a_text_is_shown_as_it_is(text: str, shown: str):
    assert plain(text) == shown


def test_what_would_colour_a_terminal_is_marked():
    assert visible("a\x1b[31mb\x07c\x9b") == "a\ufffd[31mb\ufffdc\ufffd"
    assert plain("`a\x1b`") == "`a\ufffd`"


@pytest.mark.parametrize(
    ("text", "shown"), [("`a|b` | c", "`a\\|b` \\| c"), ("- a", "- a"), ("# a", "# a")]
)
def test_in_a_table_bars_are_escaped_in_code_as_well(text: str, shown: str):
    assert plain(text, in_table=True) == shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("a", [("", "a")]),
        ("a `b` c", [("", "a "), ("`", "b"), ("", " c")]),
        ("``a`b``", [("``", "a`b")]),
        ("a ``b` c", [("", "a "), ("", "``b` c")]),
        ("`a` `b", [("`", "a"), ("", " `b")]),
    ],
)
def test_code_is_found_as_markdown_finds_it(text: str, found: list[tuple[str, str]]):
    joined = "".join(fence + piece + fence for fence, piece in spans(text))

    assert joined == text
    assert [pair for pair in spans(text) if pair[0]] == [pair for pair in found if pair[0]]


def test_code_of_any_name_is_one_piece():
    for name in ("a", "a`b", "``", "`a``b`", "a|b <c> @d"):
        ((fence, piece),) = spans(code(name))
        assert fence
        assert piece.strip() == name
