"""Our plan in other people's files and runtimes: TensorFlow Lite Micro, ExecuTorch, MiniMalloc's CSV. spec: FP11.2"""
