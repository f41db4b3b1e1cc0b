-- SPDX-License-Identifier: PostgreSQL
-- The application of the examples: batches of invoices, and what was done with each invoice.

CREATE TABLE invoice_batch (batch int PRIMARY KEY, closed boolean NOT NULL DEFAULT false);
CREATE TABLE invoice (batch int REFERENCES invoice_batch, number int, PRIMARY KEY (batch, number));

-- The effects. Without a unique constraint, so that an invoice that is reconciled twice is seen twice.
CREATE TABLE reconciliation (batch int, number int, generation bigint);
