#!/bin/sh
# Makes every recording of this folder from the table beside it: python -m search import, once for each.
#   sh recordings/public/import.sh FOLDER
set -eu
here=$(dirname "$0")
to=$1
bring() { name=$1; shift; python -m search import "$here/$name/table.md" --to "$to/$name" "$@"; }

NO_WORKER="Which worker ran; entered as v2, because the change is about it. GPUs, tensor parallel size and release."
bring sglang-22246-qwen3-235b --source https://github.com/sgl-project/sglang/pull/22246 --date 2026-04-07 \
  --model Qwen3-235B-A22B --algorithm EAGLE3 --spec-version v2 --map AutoSpec=skip \
  --note "Fixed chains against one that changes its steps by batch size; that one is left out. Means of three runs, without their spread." \
  --not-known "$NO_WORKER" --not-known "Draft, prompts, answer lengths, accept lengths. No run without speculation."
bring sglang-22246-glm-4.7 --source https://github.com/sgl-project/sglang/pull/22246 --date 2026-04-07 \
  --model GLM-4.7-FP8 --algorithm EAGLE --spec-version v2 \
  --note "Means of three runs, without their spread. Deeper chains (to 7 steps) and five steps at 64 were not in the text at hand." \
  --not-known "$NO_WORKER" --not-known "Prompts, answer lengths, accept lengths. No run without speculation."
bring sglang-25696-deepseek-v4-flash --source https://github.com/sgl-project/sglang/pull/25696 --date 2026-05-18 \
  --model DeepSeek-V4-Flash --algorithm EAGLE --gpus "2x RTX PRO 6000" --spec-version v2 --at 1 --map "Avg tok/s=output_tps" \
  --note "Means over 18 requests; with the GEMM configurations of that change there is a faster row, left out as another build. FP8, TP 2." \
  --not-known "The concurrency: entered as 1, as the rates suggest. The worker: entered as v2. Release, prompts, accept lengths."
bring specforge-339 --source https://github.com/sgl-project/SpecForge/issues/339 --date 2025-12-01 \
  --model Qwen/Qwen3-30B-A3B --draft zhuyksir/EAGLE3-Qwen3-30B-A3B-DenseHead --algorithm EAGLE3 --gpus "2x H100" --spec-version v1 \
  --note "bench_eagle3.py, 20 prompts of MT-Bench; one run each." \
  --not-known "The release; its trees ran on v1 only, so all is entered as v1."
bring angelslim-163 --source https://github.com/Tencent/AngelSlim/issues/163 --date 2025-12-08 \
  --model Qwen/Qwen3-30B-A3B --algorithm EAGLE3 --gpus "4x H100" --spec-version v1 \
  --note "bench_eagle3.py of SpecForge, greedy; one run each." \
  --not-known "The release and the draft; trees ran on v1 only then, so all is entered as v1."
bring eagle-330-glm-4.7-flash --source https://github.com/SafeAILab/EAGLE/pull/330 --date 2026-02-20 \
  --model zai-org/GLM-4.7-Flash --draft thoughtworks/GLM-4.7-Flash-Eagle3 --algorithm EAGLE3 --gpus "1x H100" --spec-version v1 \
  --note "MT-Bench. Its mean accept length, 2.4, is of no load in particular and is left out." \
  --not-known "The release; its trees ran on v1 only, so it is entered as v1."
for mode in on off; do
  bring "inferencex-minimax-m3-thinking-$mode" --at 1 --spec-version v2 --algorithm EAGLE3 --gpus "B300" \
    --source "https://github.com/SemiAnalysisAI/InferenceX golden_al_distribution/minimaxm3_eagle3.yaml, thinking_$mode" \
    --model minimax-m3 --draft Inferact/MiniMax-M3-EAGLE3 \
    --note "Accept lengths by draft length: vLLM, coding prompts of SPEED-Bench, temperature 1. At a temperature, and in another engine." \
    --not-known "The concurrency: entered as 1; accept lengths of v2 hardly change with it. Rates."
done
