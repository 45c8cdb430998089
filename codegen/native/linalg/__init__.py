"""Steps that call LAPACK."""
