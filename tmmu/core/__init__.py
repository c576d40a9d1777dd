"""The foundation of every other package: vocabulary, canonical CBOR, errors, element types, columns, expressions."""
