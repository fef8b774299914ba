-- Search runs on trigrams.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
