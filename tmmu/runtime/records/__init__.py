"""What a run leaves behind: trace, ledger, metrics and error records, all canonical CBOR (`spec/records.cddl`)."""
