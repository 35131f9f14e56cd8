"""Models of scikit-learn, LightGBM and XGBoost, converted to ONNX: one row, as services ask, and 1,000.

Of numbers, categories and texts, with scores as a tensor or, by the converter's default, as maps. On the
host's own provider, all cores. Results are held to each other first. Needs skl2onnx, onnxmltools, lightgbm
and xgboost, which no other part of the project does.

    python bench/classical.py [--save]                  beside onnxruntime
    python bench/classical.py --against CHECKOUT        beside another commit of ephost
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides
from lightgbm import LGBMClassifier
from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.common import _container
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

COLUMNS, TRAINED_ON = 20, 3000
WORDS, WORDS_IN_A_TEXT = 400, 12
CATEGORIES = ("red", "green", "blue", "black", "white", "none")
LIMIT = 1.0  # In the mean over all models 0.7 is aimed at.
# Calls that are timed together, by rows.
CALLS = {1: 200, 1000: 4}


class Data:
    """What models are trained on and asked for: numbers, categories and texts."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.numbers = random.normal(size=(TRAINED_ON, COLUMNS)).astype(np.float32)
        x = self.numbers
        self.target = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3]
        noisy = self.target + random.normal(scale=0.3, size=TRAINED_ON)
        self.classes = np.digitize(noisy, np.quantile(noisy, [1 / 3, 2 / 3]))
        self.categories = random.choice(CATEGORIES, size=(TRAINED_ON, 2)).astype(object)
        self.names = np.array(["low", "middle", "high"])[self.classes]
        words = random.integers(0, WORDS, size=(TRAINED_ON, WORDS_IN_A_TEXT))
        self.texts = np.array([" ".join(f"w{word}" for word in text) for text in words])


def convert(model: Any, types: list[tuple[str, Any]], *, maps: bool = False) -> bytes:
    """The fitted model in ONNX, with scores as a tensor, or as maps."""
    classifies = hasattr(model, "classes_")
    options = {id(model): {"zipmap": False}} if classifies and not maps else None
    opsets = {"": 18, "ai.onnx.ml": 3}
    made = to_onnx(model, initial_types=types, options=options, target_opset=opsets)
    content: bytes = made.SerializeToString()
    return content


def prepare_converter() -> None:
    """Make the boosting libraries' classifiers known to scikit-learn's converter, and mend a fault of its.

    It gives numpy's integers and booleans to protobuf, which takes Python's only.
    """
    make_node = _container.make_node

    def of_plain_numbers(*parts: Any, **attributes: Any) -> Any:
        for key, value in attributes.items():
            if isinstance(value, list) and value and isinstance(value[0], int | np.integer | np.bool_):
                attributes[key] = [int(each) for each in value]
        return make_node(*parts, **attributes)

    _container.make_node = of_plain_numbers
    for kind, name, converter in (
        (LGBMClassifier, "LightGbmLGBMClassifier", convert_lightgbm),
        (XGBClassifier, "XGBoostXGBClassifier", convert_xgboost),
    ):
        options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
        shapes = calculate_linear_classifier_output_shapes
        update_registered_converter(kind, name, shapes, converter, options=options)


def trained(data: Data) -> dict[str, Callable[[], tuple[bytes, dict[str, np.ndarray]]]]:
    """By name, what trains a model, and gives its ONNX and the feed of all rows."""
    numbers = [("x", FloatTensorType([None, COLUMNS]))]

    def on_numbers(model: Any, target: Any, *, maps: bool = False) -> tuple[bytes, dict[str, np.ndarray]]:
        model.fit(data.numbers, target)
        return convert(model, numbers, maps=maps), {"x": data.numbers}

    def on_categories(encoder: Any) -> tuple[bytes, dict[str, np.ndarray]]:
        encoder.fit(data.categories)
        return convert(encoder, [("c", StringTensorType([None, 2]))]), {"c": data.categories.astype(str)}

    def on_texts(longest: int) -> tuple[bytes, dict[str, np.ndarray]]:
        # onnxruntime changes cases by a locale that few systems without a desktop have.
        words = TfidfVectorizer(ngram_range=(1, longest), lowercase=False)
        model = make_pipeline(words, LogisticRegression(max_iter=200)).fit(data.texts, data.classes)
        return convert(model, [("t", StringTensorType([None, 1]))]), {"t": data.texts.reshape(-1, 1)}

    def on_columns() -> tuple[bytes, dict[str, np.ndarray]]:
        mixed = np.concatenate([data.numbers.astype(object), data.categories], axis=1)
        at = list(range(COLUMNS))
        prepare = ColumnTransformer(
            [
                ("scaled", StandardScaler(), at),
                ("encoded", OneHotEncoder(handle_unknown="ignore"), [COLUMNS, COLUMNS + 1]),
            ]
        )
        model = make_pipeline(prepare, LogisticRegression(max_iter=500)).fit(mixed, data.classes)
        types = [*numbers, ("c", StringTensorType([None, 2]))]
        return convert(model, types), {"x": data.numbers, "c": data.categories.astype(str)}

    classes, target = data.classes, data.target
    seed: dict[str, Any] = {"random_state": 0}
    return {
        "decision tree": lambda: on_numbers(DecisionTreeClassifier(**seed), classes),
        "random forest, 100 trees": lambda: on_numbers(RandomForestClassifier(100, **seed), classes),
        "random forest, regression": lambda: on_numbers(RandomForestRegressor(100, **seed), target),
        "extra trees, 50 trees": lambda: on_numbers(ExtraTreesClassifier(50, **seed), classes),
        "gradient boosting": lambda: on_numbers(GradientBoostingClassifier(**seed), classes),
        "gradient boosting, regression": lambda: on_numbers(GradientBoostingRegressor(**seed), target),
        "hist gradient boosting": lambda: on_numbers(HistGradientBoostingClassifier(**seed), classes > 0),
        "isolation forest": lambda: on_numbers(IsolationForest(**seed), None),
        "LightGBM": lambda: on_numbers(LGBMClassifier(n_estimators=100, verbose=-1, **seed), classes),
        "XGBoost": lambda: on_numbers(XGBClassifier(n_estimators=100, **seed), classes),
        "SVC": lambda: on_numbers(SVC(**seed), classes),
        "SVR": lambda: on_numbers(SVR(), target),
        "linear regression": lambda: on_numbers(LinearRegression(), target),
        "scaling, logistic regression": lambda: on_numbers(
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)), classes
        ),
        "scaling, one-hot encoding, logistic regression": on_columns,
        "logistic regression, maps of numbers": lambda: on_numbers(
            LogisticRegression(max_iter=500), classes, maps=True
        ),
        "logistic regression, maps of names": lambda: on_numbers(
            LogisticRegression(max_iter=500), data.names, maps=True
        ),
        "one-hot encoding": lambda: on_categories(OneHotEncoder(handle_unknown="ignore")),
        "ordinal encoding": lambda: on_categories(OrdinalEncoder()),
        "tf-idf of words, logistic regression": lambda: on_texts(1),
        "tf-idf of pairs of words, logistic regression": lambda: on_texts(2),
    }


def agree(first: list[Any], second: list[Any]) -> bool:
    """Whether scores are near and nearly all labels the same: rounding may turn a few."""
    for one, other in zip(first, second, strict=True):
        a, b = np.array(one), np.array(other)
        if a.shape != b.shape:
            return False
        if a.dtype.kind == "f":
            if not np.allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(a).max()):
                return False
        elif np.mean(a != b) > 0.005:
            return False
    return True


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=9)
    both = sides(options.against)
    kept = begin("classical")
    rows = []
    warnings.simplefilter("ignore")
    prepare_converter()
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts = (one, other)
        for name, train in trained(Data()).items():
            cases = [(f"{name}: {count:,} row{'s' * (count > 1)}", count) for count in CALLS]
            cases = [case for case in cases if wanted(case[0], options)]
            if not cases:
                continue
            note(f"{name} ...")
            content, feed = train()
            model, data = Path(folder, "model.onnx"), Path(folder, "feed.npz")
            model.write_bytes(content)
            for case, count in cases:
                np.savez(data, **{key: value[:count] for key, value in feed.items()})
                first, second = (host("prepare_feed", model=str(model), feed=str(data)) for host in hosts)
                if not agree(first, second):
                    raise SystemExit(f"{case}: the hosts do not agree")
                times = in_turns(hosts, "run", rounds=options.rounds, calls=CALLS[count])
                rows.append(Row(case, *times, limit=LIMIT))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
