"""Which parts of a name stay."""

from __future__ import annotations

import time

import pytest

from mpg_parsers.kineto.private import strip_directories, strip_strings

STRIPPED = {
    "/home/ann/proj/train.py(88): step": "train.py(88): step",
    "/home/ann/my project/a b/train.py(88): step": "train.py(88): step",
    "/home/ann/pkg(v2)/x.py(3): f": "x.py(3): f",
    "../ann/x.py(3): f": "x.py(3): f",
    "./src/x.py(3): f": "x.py(3): f",
    "~/proj/x.py(3): f": "x.py(3): f",
    "~ann/proj/x.py(1): f": "x.py(1): f",
    r"C:\Users\ann\proj\train.py(3): f": "train.py(3): f",
    "D:/work/x.py(3): f": "x.py(3): f",
    r"\\server\share\x.py(3): f": "x.py(3): f",
    "file:///home/ann/x.py(1): f": "x.py(1): f",
    "/tmp/torchinductor_alice/xy/abc.py(12): call": "torchinductor/abc.py(12): call",
    "/opt/conda/lib/python3.10/site-packages/torch/nn/linear.py(114): forward": "torch/nn/linear.py(114): forward",
    "/usr/lib/python3/dist-packages/yaml/__init__.py(1): load": "yaml/__init__.py(1): load",
    "/usr/lib/python3.11/threading.py(980): run": "threading.py(980): run",
    r"C:\Users\ann\venv\Lib\site-packages\torch\x.py(3): f": r"torch\x.py(3): f",
    "<built-in method read of /home/ann/secret/a.txt>": "<built-in method read of a.txt>",
    "load file:///home/ann/x.bin": "load x.bin",
    "load s3://bucket/ann/x.bin": "load x.bin",
    "chdir /home/ann": "chdir ",
    "chdir /Users/ann/": "chdir ",
    "ckpt=/mnt/ann/ckpt/1.pt": "ckpt=1.pt",
    "foo('/data/ann/y.txt', \"/data/ann/z.txt\")": "foo('y.txt', \"z.txt\")",
    "[lambda at /home/ann/k.cu:12:3]": "[lambda at k.cu:12:3]",
    "-I/home/ann/proj/inc": "-Iinc",
    "-L/root/a/b": "-Lb",
    "read /root/x": "read x",
    "x/home/ann/proj/y": "xy",
    "foo./home/ann/x": "foo.x",
    "a]/home/ann/b": "a]b",
    "/home/ann//proj//x": "x",
    "open //mnt/ann/x": "open x",
    r"C:\\Users\\ann\\x": "x",
    r"xC:\Users\ann\p\q": "xq",
    "~ann/x": "x",
    "$HOME/ann/proj/a": "a",
    "${HOME}/ann/a": "a",
    r"%APPDATA%\ann\x": "x",
    "%2Fhome%2Fann": "",
    "f=C%3A%5CUsers%5Cann%5Cp%5Cx": "f=C%3Ax",
    "ann@host:/mnt/proj/x": "x",
    "scp ann@10.0.0.1:/x": "scp /x",
    "/mnt/ann dir/x y/f": "f",
    "/home/ann dir/x": "x",
    "/home/ann": "",
}


@pytest.mark.parametrize(("name", "expected"), STRIPPED.items())
def test_stripped(name: str, expected: str) -> None:
    assert strip_directories(name) == expected
    assert strip_directories(expected) == expected


KEPT = [
    "aten::mm",
    "torch/nn/modules/linear.py(114): forward",
    "nn.Module: Linear_3",
    "<frozen importlib._bootstrap>(1027): _find_and_load",
    "<built-in method run of PyCapsule object at 0x7f1>",
    "Memcpy DtoD (Device -> Device)",
    "void at::native::(anonymous namespace)::f<float, (int)4>(int*)",
    "void f(/*x*/)",
    "Torch-Compiled Region: 0/1",
    "## Call CompiledFxGraph f1/2ab ##",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "a / b",
    "a / b / c",
    "f<a / b>(int)",
    "model/root/block1",
    "~Foo()",
    "100%/s",
    "user@host",
    "a/b/c",
    "1/2",
    "/",
    "//",
    "\\",
    "",
    r"operator\(",
]


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    assert strip_directories(name) == name


LONG = [
    "/a", "/a b", "a/", "~", "\\", ":/", "/home/", "/x(", "http://", "(1): /", "/", "a", "a.b-", "a b", "~a", "$a",
    "$a/", "a@b:", "a@", "%", "%2F", "%2Fhome", "%2Fhome%2Fa", "/home", "C:\\Users\\", "C:\\Users", "/home/a b/",
    "-I/root/",
]  # fmt: skip


@pytest.mark.parametrize("part", LONG)
def test_long_names_take_little_time(part: str) -> None:
    start = time.process_time()
    for text in (part * 200_000, f"{part * 200_000}/", f"/{part * 200_000}("):
        strip_directories(text)
    assert time.process_time() - start < 3


IN_JSON = {
    r'["C:\\Users\\Ann\\x","True"]': '["x","True"]',
    r'["\/home\/ann\/x"]': '["x"]',
    r'["\u002fhome\u002fann\u002fx", 1e5]': '["x", 1e5]',
    '[["%2Fhome%2Fann"], ""]': '[[""], ""]',
    '["a\\"b", "torch/nn"]': '["a\\"b", "torch/nn"]',
    '["True", ""]': '["True", ""]',
    "/home/ann/x": "x",
    "[/home/ann/x": None,
    r'["\ud800/home/ann/x"]': None,
    "[" * 100_000 + "/": None,
    "": "",
}


@pytest.mark.parametrize(("text", "expected"), IN_JSON.items(), ids=range(len(IN_JSON)))
def test_strings_in_json(text: str, expected: str | None) -> None:
    assert strip_strings(text, strip_directories) == expected
