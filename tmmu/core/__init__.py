"""What every part stands on: vocabulary, canonical CBOR, errors, element types, columns, expressions of dimensions."""
