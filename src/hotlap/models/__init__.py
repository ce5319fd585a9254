"""Plain models, written from the papers: what studies train. And reversible blocks."""
