"""Runs in the peer's own environment: one line "n" on stdin, the seconds for n words on stdout.

What is timed is the package's documented use: `replace_word` word after word, of the mechanism
"multivariate_calibrated", which is T2T. Loading and building its index are not.
"""

import sys
import time

import faiss
import mldp_text
import numpy as np
from gensim.models import KeyedVectors

path, eta, use_faiss = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "faiss"
faiss.omp_set_num_threads(1)
vectors = np.load(path)
table = KeyedVectors(vectors.shape[1])
table.add_vectors([f"w{row}" for row in range(len(vectors))], vectors)
mechanism = mldp_text.get_mechanism(
    "multivariate_calibrated",
    epsilon=eta,
    embedding_matrix=table,
    dim=vectors.shape[1],
    use_faiss=use_faiss,
)
print("ready", flush=True)
for line in sys.stdin:
    words = line.split()
    start = time.perf_counter()
    for word in words:
        mechanism.replace_word(word)
    print(time.perf_counter() - start, flush=True)
