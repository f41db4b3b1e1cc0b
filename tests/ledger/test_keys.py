# SPDX-License-Identifier: PostgreSQL
"""The derived key: SQL agrees with the shared vectors, and the vectors with sha256 itself."""

import hashlib
from pathlib import Path

VECTORS = [line.split("\t") for line in
           (Path(__file__).parents[1] / "key_vectors.tsv").read_text(encoding="utf-8").splitlines()]


def sha_key(environment, duty):
    digest = hashlib.sha256(f"pgleader:1:{environment}:{duty}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def test_vectors_are_of_both_signs_and_right():
    keys = [int(key) for _, _, key, _, _ in VECTORS]
    assert len(keys) >= 12 and min(keys) < 0 < max(keys)
    assert keys == [sha_key(environment, duty) for environment, duty, _, _, _ in VECTORS]


def test_sql_derives_the_vectors(ledger):
    query = """select key, pgleader.key_classid(key), pgleader.key_objid(key)
               from pgleader.derive_key(%s, %s) key"""
    for environment, duty, *expected in VECTORS:
        assert ledger.sql(query, (environment, duty))[0] == tuple(map(int, expected)), (environment, duty)


def test_pg_locks_shows_a_derived_key_as_the_vectors_say(ledger):
    for environment, duty, key, classid, objid in VECTORS:
        conn = ledger.connect()
        conn.execute("select pg_advisory_lock(%s::bigint)", (key,))
        seen = conn.execute("select classid::bigint, objid::bigint, objsubid from pg_locks "
                            "where locktype = 'advisory' and pid = pg_backend_pid()").fetchall()
        assert seen == [(int(classid), int(objid), 1)], (environment, duty)
        conn.close()


def test_a_database_in_another_encoding_derives_the_same(cluster):
    cluster.sql("create database latin template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'")
    cluster.install_ledger("latin")
    for environment, duty, key, _, _ in VECTORS:
        try:
            environment.encode("latin-1")
        except UnicodeEncodeError:
            continue  # such a database cannot hold the name
        assert cluster.sql("select pgleader.derive_key(%s, %s)", (environment, duty), dbname="latin") == [(int(key),)]
    cluster.sql("drop database latin")
