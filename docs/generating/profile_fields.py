"""What each field of a profile means. The order of the structs is the order of the page."""

from __future__ import annotations

import msgspec

from hotlap import records

FIELDS: dict[type[msgspec.Struct], dict[str, str]] = {
    records.Profile: {
        "schema": "The version of this format.",
        "hotlap": "The version of hotlap that wrote it.",
        "command": "The command as it was given.",
        "created": "When the profile was made: local time with its offset from UTC.",
        "folder": "The folder of the run.",
        "verdict": "What bounds the step.",
        "findings": "What the rules found, in the order of the rules.",
        "trace": "The file `--trace` wrote; null where none was asked for, or none could be made.",
        "step": "How long a step takes and what it trains on.",
        "phases": "The parts of a step by name: `input`, `transfer`, `forward`, `backward`, "
        "`optimizer`, `other`. All six are always there.",
        "startup": "What happened before the first step.",
        "memory": "The memory of two warm steps.",
        "usage": "The machine while the steps were measured.",
        "kernels": "What torch.profiler saw over a few steps. Null where the command ended before "
        "that pass.",
        "loaders": "The DataLoaders that were iterated, the one that fed most training first. At "
        "most 8.",
        "epoch_start_seconds": "What a step takes more when a DataLoader is started in it. Where "
        "every step starts one with new workers: what it waits for its input, less what making "
        "batches took. Null where no such step was seen, or nothing to compare it with.",
        "epoch_start_share": "What starting DataLoaders takes of the training time seen.",
        "starting_share": "How many of the steps start a DataLoader. Null where no step was seen.",
        "input_cpu_share": "How much of the waiting for input was CPU work, running or waiting for "
        "a core: of the time workers make batches where there are any, else of the waiting "
        "thread's.",
        "input_making_share": "How much of their time the workers spend making batches. The rest "
        "they wait for orders or hand batches over. Null without workers.",
        "lines": "By phase, the script's own lines that were running most often when sampled. At "
        "most 5 a phase. `gap` is what stands between the model and the backward pass.",
        "waits": "Lines where the host waits for the device, the longest first. At most 20.",
        "copies": "Lines that copy to the device, the largest first. At most 20.",
        "optimizers": "The optimizers that were made. At most 8.",
        "models": "Class names of the outermost modules that are trained. At most 8.",
        "ranks": "The processes that train, one entry each.",
        "losses": "The value of each backward pass in order, up to 4096, where the trial was "
        "asked to keep them (a profile is not: a clone a step is felt). Null for one that is not "
        "finite.",
        "step_seconds": "Every step of the warm-up and of the bare windows in order, also those "
        "the figures leave out.",
        "environment": "What it ran on; see below.",
        "ending": "How the command ended and what became of its writes.",
        "problems": "What failed inside hotlap's own watching. Empty where all went well.",
    },
    records.Step: {
        "median_seconds": "The median step. In a distributed run that of the slowest rank.",
        "mean_seconds": "The mean step.",
        "low_seconds": "The 10th percentile.",
        "high_seconds": "The 90th percentile.",
        "samples": "Samples in one step, all ranks together. Null where they cannot be counted.",
        "samples_per_second": "Samples trained on per second, all processes together.",
        "count": "The number of steps the figures above come from.",
        "seen": "The number of steps that were seen, warm-up included.",
        "unit": "What ends a step: `optimizer`, or `backward` where no optimizer stepped.",
        "settled": "Whether three windows of bare steps agreed.",
        "watched_seconds": "The median step the phases pass looked into. Beside `median_seconds` "
        "it shows what looking costs.",
    },
    records.Phase: {
        "seconds": "Its part of the median step. Null where it cannot be told apart, never 0 for "
        "not measured. Sentences and pictures tell it of the mean step where that is more than 1.3 "
        "times the median.",
        "share": "Its share of the step.",
    },
    records.Verdict: {
        "bottleneck": "`input`, `transfer`, `launch`, `sync`, `compute`, `optimizer`, "
        "`communication` or `other`.",
        "share": "The bottleneck's share of the step.",
        "detail": "For `input`: `fetching` or `transforming`. Else null.",
        "sentence": "The verdict in words.",
        "shares": "The share of every candidate, the largest first.",
    },
    records.Finding: {
        "rule": "The name of the rule; its page is [rules/](rules/index.md).",
        "summary": "The fact in one sentence.",
        "evidence": "The figures it rests on.",
        "advice": "The next move.",
        "file": "The file it is about, where there is one.",
        "line": "The line in that file.",
    },
    records.Startup: {
        "seconds": "From starting the command to asking for the first batch; without a DataLoader "
        "to the first backward pass.",
        "import_seconds": "Importing torch.",
        "first_batch_seconds": "From asking for the first batch to having it. Null without a "
        "DataLoader.",
        "first_step_seconds": "From starting the command to the end of its first step.",
        "compile_seconds": "What torch.compile took. Null where it was not used.",
    },
    records.Memory: {
        "kind": "`device` (memory torch allocated on the GPU) or `process` (resident memory of "
        "the training process, and what its loader workers have beside that).",
        "peak_bytes": "The peak over the steps of the memory pass.",
        "reserved_bytes": "What torch's allocator reserved at most. Null on a CPU.",
        "parameters_bytes": "Parameters and buffers.",
        "gradients_bytes": "Gradients of the parameters.",
        "optimizer_bytes": "Tensors in the state of the optimizers.",
        "activations_bytes": "What the forward pass leaves for the backward pass. Null where it "
        "could not be told.",
        "rest_bytes": "The peak less everything above. On a CPU this holds the interpreter, "
        "its libraries and the loader's workers.",
    },
    records.Usage: {
        "cores": "Cores the command's processes burned.",
        "other_cores": "Cores everything else on the machine burned.",
        "stolen_cores": "Of these, what the host of a virtual machine kept from it. 0 where it "
        "does not tell, null in older records.",
        "memory_bytes": "Resident memory of the command's processes, added up.",
        "read_bytes_per_second": "Read from disk by the command's processes.",
        "gpu_busy": "The share of time in which a kernel ran, as NVML says.",
        "gpu_memory_bytes": "GPU memory in use, by all processes.",
        "gpu_clock_hertz": "The clock of the GPU's multiprocessors.",
        "gpu_throttled_share": "The share of readings in which the GPU lowered its clock for "
        "another reason than idling, a set clock or its power cap.",
        "foreign_gpu_processes": "Processes on the GPU that are not the command's.",
        "samples": "The number of readings the means come from.",
    },
    records.Kernels: {
        "steps": "The number of steps under torch.profiler.",
        "problem": "Why there are no figures. Null where there are.",
        "profiled_step_seconds": "The step under torch.profiler. Longer than the real one.",
        "profiled_model_seconds": "Calls of the model and backward passes in it.",
        "operations": "By phase, the number of operators called.",
        "big_seconds": "By phase, the time within operators that take 15 µs or more of their own, "
        "each as long as in the middle one of the steps.",
        "lost_seconds": "By phase, the time of smaller operators in steps in which they took 15 µs "
        "or more: others had the core.",
        "operator_seconds": "By phase, the time within operators.",
        "blocked_seconds": "Time the host spent in CUDA's synchronising calls.",
        "communication_seconds": "Time in collectives that no computation overlapped.",
        "device_busy_seconds": "Time in which the device ran anything. Null without a device.",
        "device_seconds": "By phase, the time kernels and copies ran that were issued in it.",
        "kernels": "The number of kernels.",
        "copies": "The number of copies.",
        "to_device_seconds": "Time of copies to the device.",
        "from_device_seconds": "Time of copies from the device.",
    },
    records.Loader: {
        "dataset": "The class of the dataset.",
        "sampler": "The class of the sampler; of the one below torch's own sampler of batches.",
        "iterable": "Whether it is an IterableDataset.",
        "batches": "Its length. Null where it has none.",
        "batch_size": "As it was given, to the loader or to torch's own sampler of batches.",
        "workers": "`num_workers`.",
        "prefetch_factor": "As it was given.",
        "pin_memory": "As it was given.",
        "persistent_workers": "As it was given.",
        "context": "How workers are started, where that was given.",
        "trained": "Its batches that were seen to be trained on; the bare pass does not look.",
        "file": "Where it was made.",
        "line": "The line in that file.",
    },
    records.Line: {
        "file": "The file.",
        "line": "The line.",
        "function": "The function.",
        "share": "Its share of the samples in this phase.",
        "samples": "The number of samples.",
        "in_torch": "Of these, those in which torch's own code was running, called from there.",
        "package": (
            "The installed library whose code was running, where the training loop is its own and "
            "the line only starts it; null where it is the line itself that costs."
        ),
    },
    records.Wait: {
        "what": "The call that waits, for example `.item()`.",
        "file": "The file.",
        "line": "The line.",
        "per_step": "Calls per step.",
        "seconds_per_step": "How long they hold the host per step.",
    },
    records.Copy: {
        "file": "The file.",
        "line": "The line.",
        "per_step": "Copies per step.",
        "bytes_per_step": "What is copied per step.",
        "pinned": "Whether every copy was from pinned memory.",
    },
    records.Optimizer: {
        "name": "Its class.",
        "torchs_own": "Whether it comes from torch.optim.",
        "tensors": "The number of parameter tensors.",
        "fused": "As it was given. Null where it was not, or where it has no such option.",
        "foreach": "As it was given. Null where it was not, or where it has no such option.",
        "can_fuse": "Whether it has the option `fused`.",
        "file": "Where it was made.",
        "line": "The line in that file.",
    },
    records.Rank: {
        "rank": "Its rank, as torch.distributed or the launcher said. Null outside a "
        "distributed run.",
        "pid": "Its process; of a task of `srun`, plus 4,194,304 times the task's number.",
        "steps": "The number of steps it was seen to take.",
        "median_seconds": "Its median step.",
        "own_seconds": "Its mean step without waiting for others: without the backward pass or, "
        "where they take longer, the collectives.",
    },
    records.Ending: {
        "code": "The exit code of the command. Null where a signal ended it.",
        "signal": "The signal that ended it, also when hotlap sent it.",
        "stopped": "Why hotlap stopped it: `enough`, `stalled` or `interrupted`. Null where it "
        "ended by itself.",
        "seconds": "How long it ran.",
        "protected": "The folders that an overlay covered.",
        "overlay_refused": "Why there was no overlay, where one was wanted.",
        "in_place": "Whether `--in-place` was given.",
        "written": "What the command wrote into the overlay, the largest files first. At most 20.",
        "written_bytes": "All it wrote into the overlay.",
        "written_in_place": "Without an overlay: files of the working directory that are new, "
        "changed or deleted. At most 20.",
        "diverted": "Paths of saves that were led into the trial's folder.",
        "left_running": "Processes the command left behind, which hotlap ended. At most 20.",
    },
    records.Written: {
        "path": "The path as the command sees it.",
        "bytes": "Its size.",
        "bytes_before": "The size of the real file of that name; null where there is none. A file "
        "that is only opened for writing is copied as a whole and has its size.",
    },
}

ENVIRONMENT = {
    "python, torch, cuda, cudnn": "Versions. `cudnn` only with CUDA.",
    "device": "`cpu`, or `cuda:0`, `xpu:0` and so on: where the trained parameters are.",
    "device_name, device_bytes, device_uuid": "The GPU or other device, and its memory. The last "
    "only with one.",
    "capability": "Its compute capability: major and minor version. Only with CUDA.",
    "devices": "The number of GPUs torch sees; 0 when it trains on a CPU.",
    "threads": "`torch.get_num_threads()`.",
    "affinity": "Cores the training process may run on.",
    "cores": "Cores hotlap may use: affinity, cut by the cgroup's quota.",
    "host": "The machine's name, where another program started the training (`srun`).",
    "memory_bytes": "Memory of the machine, cut by the cgroup's limit.",
    "shared_memory_bytes": "The size of /dev/shm.",
    "processor, system": "The CPU's name; the operating system and its release.",
    "world_size": "The number of processes that train.",
    "script": "What the script does for speed by itself; see below.",
}

# The entry `script` of the environment.
SCRIPT = {
    "autocast": "The type it computes in under `torch.autocast`. Null where it does not.",
    "scaler": "Whether it made a GradScaler.",
    "keeps_gradients": "Whether it calls `zero_grad(set_to_none=False)`.",
    "cudnn_benchmark": "`torch.backends.cudnn.benchmark`.",
    "matmul_precision": "`torch.get_float32_matmul_precision()`.",
    "layers": "Class names of the modules in the trained models, with how many there are. The 40 "
    "most frequent.",
    "exchange": "What `DistributedDataParallel` sends between ranks; null where no model is "
    "wrapped in it. `bytes` of gradients, `per_step` (how many times a step), `backend`, `hook` "
    "(whether the script has a communication hook), `views` (whether gradients are views of what "
    "is sent).",
    "debugging": "What is on that is meant for debugging: `detect_anomaly`, with the file and line "
    "that switched it on where that is known, and variables of the environment, with null.",
    "types": "Types of the trained parameters, with how many there are.",
}
