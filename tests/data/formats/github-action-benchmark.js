window.BENCHMARK_DATA = {
  "lastUpdate": 1716582030521,
  "entries": {
    "Benchmark": [
      {
        "commit": {
          "id": "2487d331526e6ac7b3e6814cbd7c90d783354c2a",
          "timestamp": "2024-04-12T10:40:32-04:00"
        },
        "date": 1712933021250,
        "tool": "cargo",
        "benches": [
          {
            "name": "empty_clone",
            "value": 797,
            "range": "± 22",
            "unit": "ns/iter"
          },
          {
            "name": "str10_copy",
            "value": 3948507,
            "range": "± 44415",
            "unit": "ns/iter"
          },
          {
            "name": "u64_copy",
            "value": 156582,
            "range": "± 3784",
            "unit": "ns/iter"
          }
        ]
      },
      {
        "commit": {
          "id": "4fe52b54b83a49fe3006e6172fa71f8845b55caf",
          "timestamp": "2024-05-24T14:02:49-04:00"
        },
        "date": 1716573930241,
        "tool": "cargo",
        "benches": [
          {
            "name": "empty_clone",
            "value": 954.75,
            "range": "± 12.57",
            "unit": "ns/iter"
          },
          {
            "name": "str10_copy",
            "value": 3633483.9,
            "range": "± 28684.13",
            "unit": "ns/iter"
          },
          {
            "name": "u64_copy",
            "value": 142972.78,
            "range": "± 2968.80",
            "unit": "ns/iter"
          }
        ]
      }
    ]
  }
}
