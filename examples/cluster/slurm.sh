#!/bin/bash
# Train on two machines of eight GPUs under Slurm: sbatch examples/cluster/slurm.sh
# Put into the queue again (a machine failed, the time was over), it goes on from the last checkpoint.
#SBATCH --job-name=translucid
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@120
set -euo pipefail

recipe=${RECIPE:-recipe.toml} # seen by all machines under this name, as the data and the run are
run=${RUN:-/shared/runs/x}
gpus=${GPUS:-8}

ulimit -n 65536 || true # gloo connects every process with every other
export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / gpus))
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
if [[ -d $run/state ]]; then
    job=(resume "$run")
else
    job=(train "$recipe" --out "$run")
fi
srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node "$gpus" \
    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:29500" \
    -m translucid "${job[@]}"
