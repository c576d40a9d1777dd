"""Plans of this project in the files and runtimes of others: TensorFlow Lite Micro, ExecuTorch, MiniMalloc's CSV.

spec: FP11.2
"""
