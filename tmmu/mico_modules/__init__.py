"""What the usage of MiCo's document imports, under MiCo's names; `tmmu mico path` prints this folder. spec: MC8.9"""
