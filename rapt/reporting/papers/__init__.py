"""The tables and figures of the papers, each with what it prints beside what ran here."""
