"""The records of a run: trace, ledger, metrics and error records, all canonical CBOR (`spec/records.cddl`)."""
