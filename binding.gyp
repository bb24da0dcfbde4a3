{
  # The addon is built where nvcc is found (CUDA 12.1 or later); elsewhere the target is empty and the library runs on the
  # CPU. The CUDA runtime is linked statically: at run time only the NVIDIA driver is needed.
  "variables": {
    "nvcc%": "<!(node csrc/gyp/toolkit.js nvcc)"
  },
  "targets": [
    {
      "target_name": "warpgraph",
      "conditions": [
        [
          "nvcc == ''",
          { "type": "none" },
          {
            "sources": ["<!@(node csrc/gyp/toolkit.js sources)"],
            "include_dirs": [
              "csrc",
              "<!(node -p \"require('node-addon-api').include_dir\")",
              "<!(node csrc/gyp/toolkit.js include)"
            ],
            "defines": [
              "NAPI_VERSION=9",
              "NODE_ADDON_API_CPP_EXCEPTIONS_ALL",
              # A stopping worker refuses exceptions too; there is nobody left to tell.
              "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS",
              "WARPGRAPH_ARCHITECTURES=\"<!(node csrc/gyp/toolkit.js architectures)\""
            ],
            "cflags_cc!": ["-fno-exceptions", "-fno-rtti", "-std=gnu++17", "-std=gnu++20"],
            "cflags_cc": ["-fexceptions", "-std=c++17", "-Wall", "-Wextra", "-fvisibility=hidden", "<!@(node csrc/gyp/toolkit.js werror)"],
            # Never unloaded, also when the last worker that loaded it ends: what is known of devices and of their
            # memory belongs to the process. Nothing is exported but the entry points.
            "ldflags": [
              "-Wl,--exclude-libs,ALL",
              "-Wl,-z,nodelete",
              "-Wl,--version-script=<(module_root_dir)/csrc/gyp/exports.map"
            ],
            "libraries": ["<!@(node csrc/gyp/toolkit.js lib)", "-lcudart_static", "-ldl", "-lrt", "-lpthread"],
            "rules": [
              {
                "rule_name": "nvcc",
                "extension": "cu",
                # Every header is an input of every kernel file, and so are the flags: make looks at files only.
                "inputs": [
                  "binding.gyp",
                  "<!(node csrc/gyp/toolkit.js stamp)",
                  "<!@(node csrc/gyp/toolkit.js headers)"
                ],
                "outputs": ["<(INTERMEDIATE_DIR)/<(RULE_INPUT_ROOT).cu.o"],
                "process_outputs_as_sources": 1,
                "message": "nvcc <(RULE_INPUT_PATH)",
                "action": [
                  "<(nvcc)",
                  "-c",
                  "<(RULE_INPUT_PATH)",
                  "-o",
                  "<(INTERMEDIATE_DIR)/<(RULE_INPUT_ROOT).cu.o",
                  "-Icsrc",
                  "<!@(node csrc/gyp/toolkit.js flags)"
                ]
              }
            ]
          }
        ]
      ]
    }
  ]
}
