-- SPDX-License-Identifier: PostgreSQL
-- What the ledger lacks of roles and grants: no row where nothing is missing. 3F000 where there is no ledger.
-- Columns: what text, loss text, statement text (what a user who may would run)
WITH owner AS (
    SELECT r.rolname AS name FROM pg_catalog.pg_namespace AS n
    JOIN pg_catalog.pg_roles AS r ON r.oid = n.nspowner
    WHERE n.oid = 'pgleader'::pg_catalog.regnamespace
), wanted (role_name, loss, relation, routine) AS (
    VALUES ('pgleader_reader', 'exporters and screens cannot be given a role of their own',
            'pgleader.duty', 'read_lease'),
        ('pgleader_candidate', 'workers cannot be given a role of their own',
            'pgleader.current_term', 'begin_term'),
        ('pgleader_operator', 'people on call cannot be given a role of their own',
            'pgleader.duty', 'request_yield')
), granted (role_name, member_of, loss) AS (
    VALUES ('pgleader_reader', 'pg_read_all_stats',
            'readers see who owns a duty, but not since when its session is there nor from where')
    UNION ALL
    SELECT owner.name, 'pg_read_all_stats',
        'terms are recorded without the start of their session, and no yield can end a session'
    FROM owner
    UNION ALL
    SELECT owner.name, 'pg_signal_backend',
        'a yield cannot end a session: it is graceful, or not at all'
    FROM owner
)
SELECT 'role ' || w.role_name AS what, w.loss,
    pg_catalog.format('CREATE ROLE %I NOLOGIN; then `pgleader ledger install`', w.role_name) AS statement
FROM wanted AS w WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = w.role_name)
UNION ALL
SELECT 'rights of ' || w.role_name, 'this role cannot do its work', '`pgleader ledger install`'
FROM wanted AS w JOIN pg_catalog.pg_roles AS r ON r.rolname = w.role_name
WHERE NOT (pg_catalog.has_schema_privilege(r.oid, 'pgleader', 'USAGE')
    AND coalesce((SELECT pg_catalog.has_table_privilege(r.oid, c.oid, 'SELECT') FROM pg_catalog.pg_class AS c
        WHERE c.oid = pg_catalog.to_regclass(w.relation)), false)
    AND coalesce((SELECT pg_catalog.bool_and(pg_catalog.has_function_privilege(r.oid, p.oid, 'EXECUTE'))
        FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'pgleader'::pg_catalog.regnamespace AND p.proname = w.routine), false))
UNION ALL
SELECT pg_catalog.format('%s for %s', g.member_of, g.role_name), g.loss,
    pg_catalog.format('GRANT %I TO %I;', g.member_of, g.role_name)
FROM granted AS g JOIN pg_catalog.pg_roles AS r ON r.rolname = g.role_name
WHERE NOT pg_catalog.pg_has_role(r.oid, g.member_of, 'USAGE')
