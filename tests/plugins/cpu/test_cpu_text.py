"""Operators that look into texts."""

import numpy as np
import onnx
import pytest
from ephost.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, assert_close, make_model

TEXTS = np.array(
    [" a b  c ", "", "a", "  ", "a\tb\nc", "a\u00a0b", "bb", "b", "aébé", "\U0001f600 b", "x" * 70, "b b b"],
    object,
)


@pytest.mark.parametrize("delimiter", [None, "", " ", "b", "  ", "é", "abc"])
@pytest.mark.parametrize("limit", [None, 0, 1, 2])
def test_texts_are_split(cpu_plugin: Cpu, delimiter: str | None, limit: int | None) -> None:
    attributes = {"delimiter": delimiter, "maxsplit": limit}
    node = helper.make_node(
        "StringSplit", ["x"], ["y", "n"], **{k: v for k, v in attributes.items() if v is not None}
    )
    for x in (TEXTS, TEXTS.reshape(3, 4), TEXTS[:0], TEXTS[1:2]):
        cpu_plugin.check_beside_onnxruntime(node, {"x": x}, ["y", "n"])


@pytest.mark.parametrize(
    "shapes", [((12,), (12,)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2,)), ((0,), (1,))]
)
def test_texts_are_joined(cpu_plugin: Cpu, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    feeds = {
        name: np.array(np.resize(TEXTS[at:], shape), object)
        for at, (name, shape) in enumerate(zip("xz", shapes, strict=True))
    }
    cpu_plugin.check_beside_onnxruntime(helper.make_node("StringConcat", ["x", "z"], ["y"]), feeds)


TOKENIZERS: list[dict[str, object]] = [
    {"separators": [" "], "mincharnum": 1},
    {"separators": [" ", "b"], "mincharnum": 1},
    {"separators": ["b", " "], "mincharnum": 2},
    {"separators": ["ab", "é"], "mincharnum": 1},
    {"separators": [""], "mincharnum": 1},
    {"tokenexp": "[a-zA-Z0-9_]+", "mincharnum": 1},
    {"tokenexp": "[a-z]", "mincharnum": 1},
    {"tokenexp": r"\w+", "mincharnum": 2},
    {"tokenexp": r"[\d\-x ]+", "mincharnum": 1},
    {"tokenexp": "b", "mincharnum": 1},
    {"tokenexp": "a|ab|b", "mincharnum": 1},
    {"tokenexp": "[^a]+", "mincharnum": 1},
    {"tokenexp": "(ab)+", "mincharnum": 1},
    {"tokenexp": ".", "mincharnum": 1},
    {"tokenexp": ".{1,2}", "mincharnum": 1},
    {"tokenexp": "[a-zA-Z]{1,4}", "mincharnum": 2},
    {"tokenexp": r"\b[a-z ]+\b", "mincharnum": 1},
    {"tokenexp": r"\b\w\w+\b", "mincharnum": 1},
    {"tokenexp": "[[:alpha:]]+", "mincharnum": 1},
    {"separators": ["a.b"], "mincharnum": 1},
    {"separators": ["[.]", r"\?", r"\!", " +", r"\("], "mincharnum": 1},
    {"separators": [r"\bb", "é|a"], "mincharnum": 1},
]


@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize("attributes", TOKENIZERS)
def test_tokenizers(cpu_plugin: Cpu, mark: int, attributes: dict[str, object]) -> None:
    node = helper.make_node(
        "Tokenizer", ["x"], ["y"], domain="com.microsoft", mark=mark, pad_value="#é", **attributes
    )
    for x in (TEXTS, TEXTS.reshape(3, 4), TEXTS.reshape(12, 1), TEXTS[1:2]):
        cpu_plugin.check_beside_onnxruntime(node, {"x": x})


@pytest.mark.parametrize("expression", ["(?i)a", r"\pL+", r"(a)\1"])
def test_tokens_by_other_expressions_are_left_to_others(cpu_plugin: Cpu, expression: str) -> None:
    node = helper.make_node(
        "Tokenizer", ["x"], ["y"], domain="com.microsoft", pad_value="", tokenexp=expression, mincharnum=1
    )
    with pytest.raises(Exception, match="claimed by no execution provider"):
        cpu_plugin.session(make_model([node], {"x": TEXTS}, ["y"]))


def normalized(cpu_plugin: Cpu, x: list[str] | list[list[str]], **attributes: object) -> list[object]:
    feeds = {"x": np.array(x, object)}
    model = make_model([helper.make_node("StringNormalizer", ["x"], ["y"], **attributes)], feeds, ["y"])
    (y,) = cpu_plugin.run(model, feeds)
    return y.tolist()


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("stops", [[], ["Monday", "é"], ["monday", "tuesday", "É", "x"]])
def test_words_are_normalized(cpu_plugin: Cpu, action: str, sensitive: int, stops: list[str]) -> None:
    attributes = {"case_change_action": action, "is_case_sensitive": sensitive}
    node = helper.make_node(
        "StringNormalizer", ["x"], ["y"], **attributes, **({"stopwords": stops} if stops else {})
    )
    words = ["Monday", "TUESDAY", "é", "É", "x", "", "a b"]
    if action == "NONE" and sensitive:
        cpu_plugin.check_beside_onnxruntime(node, {"x": np.array(words, object)})
    same = (lambda word: word) if sensitive else str.lower
    case = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}[action]
    expected = [case(word) for word in words if same(word) not in [same(stop) for stop in stops]]
    more = {"stopwords": stops} if stops else {}
    assert normalized(cpu_plugin, words, **attributes, **more) == expected
    assert normalized(cpu_plugin, [words], **attributes, **more) == [expected]


def test_each_character_changes_its_case_alone(cpu_plugin: Cpu) -> None:
    words = ["Straße", "ΣΑΣ", "ﬁx", "Ǆ", "\U00010400"]
    upper = normalized(cpu_plugin, words, case_change_action="UPPER")
    assert upper == ["STRAßE", "ΣΑΣ", "ﬁX", "Ǆ", "\U00010400"]
    lower = normalized(cpu_plugin, words, case_change_action="LOWER")
    assert lower == ["straße", "σασ", "ﬁx", "ǆ", "\U00010428"]  # noqa: RUF001


def test_characters_beyond_sixteen_bits_change_their_case(cpu_plugin: Cpu) -> None:
    # The first and the last of each alphabet there: what is between two letters of a row is in it, too.
    capitals = [
        0x10400,
        0x10427,
        0x104B0,
        0x104D3,
        0x10570,
        0x1057A,
        0x1057C,
        0x1058A,
        0x1058C,
        0x10592,
        0x10594,
    ]
    capitals += [0x10595, 0x10C80, 0x10CB2, 0x118A0, 0x118BF, 0x16E40, 0x16E5F, 0x1E900, 0x1E921]
    words = [chr(code) for code in capitals]
    small = [word.lower() for word in words]
    assert all(word != other for word, other in zip(words, small, strict=True))
    assert normalized(cpu_plugin, words, case_change_action="LOWER") == small
    assert normalized(cpu_plugin, small, case_change_action="UPPER") == words
    others = ["\U0001057b", "\U0001058b", "\U0001f600", "\U00020000"]
    for action in ("LOWER", "UPPER"):
        assert normalized(cpu_plugin, others, case_change_action=action) == others


def test_where_no_word_stays_there_is_an_empty_one(cpu_plugin: Cpu) -> None:
    for case in (0, 1):
        assert normalized(cpu_plugin, ["a", "a"], stopwords=["a"], is_case_sensitive=case) == [""]
        assert normalized(cpu_plugin, [["a", "a"]], stopwords=["a"], is_case_sensitive=case) == [[""]]


def test_words_of_several_rows_are_refused(cpu_plugin: Cpu) -> None:
    text = onnx.TensorProto.STRING
    graph = helper.make_graph(
        [helper.make_node("StringNormalizer", ["x"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", text, None)],
        [helper.make_tensor_value_info("y", text, None)],
    )
    session = cpu_plugin.session(helper.make_model(graph, ir_version=10))
    with pytest.raises(InvalidArgument, match=r"shape \[2, 1\], where \[C\] or \[1, C\] is expected"):
        session.run(None, {"x": np.array([["a"], ["b"]], object)})


def grams(rng: np.random.Generator, lengths: list[int], vocabulary: int) -> dict[str, list[int]]:
    """As many different n-grams of each length, in any order."""
    pool: list[int] = []
    counts = []
    for length, many in enumerate(lengths, 1):
        counts.append(len(pool))
        codes = rng.permutation(vocabulary**length)[:many]
        for code in codes:
            pool.extend(int(code) // vocabulary**place % vocabulary for place in range(length))
    return {"pool": pool, "ngram_counts": counts}


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("seed", range(12))
def test_grams_are_counted(cpu_plugin: Cpu, mode: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = [int(n) for n in rng.integers(0, 5, 3)]
    made = grams(rng, [max(lengths[0], 1), *lengths[1:]], 6)
    many = max(lengths[0], 1) + sum(lengths[1:])
    least = int(rng.integers(1, 4))
    attributes: dict[str, object] = {
        "mode": mode,
        "min_gram_length": least,
        "max_gram_length": int(rng.integers(least, 4)),
        "max_skip_count": int(rng.integers(0, 4)),
        "ngram_counts": made["ngram_counts"],
        "ngram_indexes": rng.permutation(many).tolist(),
    }
    if seed % 2:
        attributes["weights"] = rng.random(many).astype(np.float32).tolist()
    for shape in ((9,), (4, 8), (0,), (2, 1)):
        x = rng.integers(0, 7, shape)
        numbers = helper.make_node("TfIdfVectorizer", ["x"], ["y"], pool_int64s=made["pool"], **attributes)
        for dtype in (np.int64, np.int32):
            cpu_plugin.check_beside_onnxruntime(numbers, {"x": x.astype(dtype)})
        names = np.array([f"wörd {number}" for number in range(7)], object)
        texts = helper.make_node(
            "TfIdfVectorizer", ["x"], ["y"], pool_strings=names[made["pool"]].tolist(), **attributes
        )
        cpu_plugin.check_beside_onnxruntime(texts, {"x": np.array(names[x], object)})


TFIDF: dict[str, object] = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 0,
    "ngram_counts": [0, 2],
    "ngram_indexes": [0, 1, 2],
    "pool_int64s": [1, 2, 3, 4],
}
TOKENS: dict[str, object] = {"mark": 0, "mincharnum": 1, "pad_value": "", "separators": [" "]}


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("TfIdfVectorizer", TFIDF | {"mode": "TD"}, "TD"),
        ("TfIdfVectorizer", TFIDF | {"min_gram_length": 0}, "min_gram_length"),
        ("TfIdfVectorizer", TFIDF | {"max_gram_length": 1 << 40}, "ngram_counts"),
        ("TfIdfVectorizer", TFIDF | {"max_skip_count": -1}, "max_skip_count"),
        ("TfIdfVectorizer", TFIDF | {"ngram_counts": [0, 9]}, "ngram_counts"),
        ("TfIdfVectorizer", TFIDF | {"ngram_counts": [0, 1]}, "within a gram of 2"),
        ("TfIdfVectorizer", TFIDF | {"ngram_counts": [-2, 2]}, "ngram_counts"),
        ("TfIdfVectorizer", TFIDF | {"ngram_indexes": [0, 1]}, "ngram_indexes"),
        ("TfIdfVectorizer", TFIDF | {"ngram_indexes": [0, 1, -1]}, "negative values"),
        ("TfIdfVectorizer", TFIDF | {"ngram_indexes": [0, 1, 1 << 50]}, "the column"),
        ("TfIdfVectorizer", TFIDF | {"weights": [1.0]}, "weights has 1 of 3 entries"),
        ("TfIdfVectorizer", TFIDF | {"pool_strings": ["a"]}, "both pool_int64s and pool_strings"),
        ("StringNormalizer", {"case_change_action": "TITLE"}, "TITLE"),
        ("Tokenizer", TOKENS | {"mincharnum": 0}, "mincharnum"),
        ("Tokenizer", TOKENS | {"tokenexp": "a"}, "separators or tokenexp"),
        ("Tokenizer", TOKENS | {"separators": [" ", ""]}, "empty separator"),
    ],
)
def test_attributes_that_do_not_fit_are_named_when_the_session_opens(
    cpu_plugin: Cpu, op: str, attributes: dict[str, object], words: str
) -> None:
    domain = "com.microsoft" if op == "Tokenizer" else ""
    node = helper.make_node(op, ["x"], ["y"], "faulty", domain=domain, **attributes)
    x = np.zeros(4, np.int64) if op == "TfIdfVectorizer" else np.array(["a"], object)
    model = make_model([node], {"x": x}, [], open_shapes=True)
    model.graph.output.append(
        helper.make_tensor_value_info(
            "y", onnx.TensorProto.FLOAT if op == "TfIdfVectorizer" else onnx.TensorProto.STRING, None
        )
    )
    with pytest.raises((Fail, InvalidArgument, InvalidGraph), match="faulty") as caught:
        cpu_plugin.session(model)
    assert words in str(caught.value)


def test_a_pipeline_of_scikit_learn(cpu_plugin: Cpu) -> None:
    pytest.importorskip("sklearn")
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = [
        "the red fox jumps",
        "a green bird sings",
        "the blue fish swims and sings",
        "red red birds jump",
    ] * 5
    names = ["fox", "bird", "fish", "bird"] * 5
    feeds = {"x": np.array(texts, object).reshape(-1, 1)}
    for first in (
        CountVectorizer(),
        TfidfVectorizer(ngram_range=(1, 2)),
        CountVectorizer(stop_words=["the"]),
    ):
        pipeline = make_pipeline(first, LogisticRegression()).fit(texts, names)
        model = skl2onnx.convert_sklearn(
            pipeline,
            initial_types=[("x", skl2onnx.common.data_types.StringTensorType([None, 1]))],
            options={id(pipeline): {"zipmap": False}},
            target_opset=18,
        )
        labels, scores = cpu_plugin.run(model, feeds)
        assert labels.tolist() == pipeline.predict(texts).tolist()
        assert_close(scores, pipeline.predict_proba(texts).astype(np.float32), 1e-4, 1e-5, "scores")
