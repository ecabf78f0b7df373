"""Faults to plant, each with the test that must go red. `plant.py` plants them in a copy."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One line of the product, broken."""

    file: str  # under src/translucid
    what: str
    old: str  # stands in the file exactly once
    new: str
    red: str  # the test that must fail: file::function, without `test_`


CACHE, ATTENTION, RECURRENT = "parts/cache.py", "parts/attention.py", "parts/recurrent.py"
NORMS, POSITIONS = "parts/norms.py", "parts/positions.py"
BEAM, SEARCH = "generate/beam.py", "generate/beam_search.py"
TRANSFORMER, TRACE = "models/transformer.py", "trace.py"
FIXED = "fast/fixed_state.py"

FAULTS = (
    # step by step, chunks
    Fault(
        CACHE,
        "the next slots stand still",
        "self.taken += count",
        "self.taken = count",
        "steps::step_by_step",
    ),
    Fault(
        "models/recurrent.py",
        "a step does not keep the new state",
        "state.layers = [after]",
        "state.layers = [before]",
        "steps::step_by_step",
    ),
    Fault(
        CACHE,
        "each chunk starts again at position 0",
        "places = self.counts[..., None] + torch.arange(queries, device=device)",
        "places = 0 * self.counts[..., None] + torch.arange(queries, device=device)",
        "steps::chunks",
    ),
    Fault(
        CACHE,
        "padding counts as a position",
        "counted = mask.sum(dim=2)",
        "counted = queries",
        "steps::ragged_prompts",
    ),
    Fault(
        TRANSFORMER,
        "a chunk's queries take their slots from 0",
        "newest, positions, slots.index, keys,",
        "newest, positions, slots.index - slots.index[0], keys,",
        "steps::chunks",
    ),
    # beams
    Fault(
        CACHE,
        "a move of sources forgets the values",
        "self.keys, self.values = self.keys[sources], self.values[sources]",
        "self.keys = self.keys[sources]",
        "beams::rows_repeat_and_vanish",
    ),
    Fault(
        CACHE,
        "reorder forgets the cell of an LSTM",
        "self.cell = None if self.cell is None else self.cell[:, rows]",
        "pass",
        "beams::beams_follow_their_parents",
    ),
    Fault(
        CACHE,
        "a move of sources forgets which slots are seen",
        "self.seen, self.positions = self.seen[sources], self.positions[sources]",
        "self.positions = self.positions[sources]",
        "beams::rows_repeat_and_vanish",
    ),
    Fault(
        CACHE,
        "a move of sources forgets how many tokens a row has",
        "self.counts = self.counts[sources]",
        "pass",
        "beams::rows_repeat_and_vanish",
    ),
    Fault(
        CACHE,
        "beams of every source follow the first source",
        "(sources * self.beams + parents)",
        "(0 * sources + parents)",
        "beams::beams_follow_their_parents",
    ),
    Fault(
        CACHE,
        "the encoder output stays when sentences leave",
        "self.encoder_output = self.encoder_output.select(sources)",
        "pass",
        "beams::sentences_leave_and_change_places",
    ),
    Fault(
        CACHE,
        "the encoder output's mask stays when its rows move",
        "mask=None if self.mask is None else self.mask[sources]",
        "mask=self.mask",
        "beams::sentences_leave_and_change_places",
    ),
    Fault(
        CACHE,
        "a beam sees its old path and not its parent's",
        "self.seen.copy_(self.seen.gather(1, parents[..., None].expand_as(self.seen)))",
        "pass",
        "beams::beams_follow_their_parents",
    ),
    Fault(
        CACHE,
        "beams see one another",
        "own = torch.eye(beams, dtype=torch.bool, device=device)[:, None]",
        "own = torch.ones(beams, beams, dtype=torch.bool, device=device)[:, None]",
        "beams::beams_follow_their_parents",
    ),
    Fault(
        CACHE,
        "the prompt is lost when beams begin",
        "new[:, :, :taken] = old[:, :, :taken]",
        "pass",
        "beams::beams_follow_their_parents",
    ),
    Fault(
        CACHE,
        "the queries of a beam go to the slots of others",
        "index = block.unflatten(0, (queries, beams)).T.flatten()",
        "index = block",
        "beams::several_tokens_at_once",
    ),
    # beam search
    Fault(
        SEARCH,
        "the state does not follow the parents",
        "state.follow(parents)",
        "pass",
        "beam_search::cached_search",
    ),
    Fault(
        SEARCH,
        "the logits of the first row serve all",
        "step(newest, state)[:, -1]",
        "step(newest, state)[:1, -1].expand(len(newest), -1)",
        "beam_search::greedy",
    ),
    Fault(
        BEAM,
        "alpha is ignored",
        "return self.scores / self.lengths.clamp(min=1).to(self.scores) ** alpha",
        "return self.scores",
        "beam_search::exhaustive",
    ),
    Fault(
        BEAM,
        "all beams are expanded from the same start",
        "scores[:, :: beams // groups] = 0.0",
        "scores[:] = 0.0",
        "beam_search::exhaustive",
    ),
    Fault(
        BEAM,
        "a text that has ended is expanded",
        "competing = torch.where(live, scores, -torch.inf)[..., None] + token_log_probs",
        "competing = scores[..., None] + token_log_probs",
        "beam_search::exhaustive",
    ),
    Fault(
        BEAM,
        "a text that has ended grows longer",
        "lengths = beams.lengths.gather(1, chosen.parents) + live",
        "lengths = beams.lengths.gather(1, chosen.parents) + 1",
        "beam_search::exhaustive",
    ),
    Fault(
        BEAM,
        "what goes on takes the places of what has ended",
        "turn = (live.cumsum(dim=1) - 1).clamp(min=0)",
        "turn = torch.arange(live.shape[1]).expand_as(live)",
        "beam_search::exhaustive",
    ),
    Fault(
        BEAM,
        "the bound forgets that a longer text is divided by more",
        "return bar >= live / most.to(live) ** alpha",
        "return bar >= live / beams.lengths.amax(dim=1).to(live) ** alpha",
        "beam_search::stopping_early_loses_nothing",
    ),
    Fault(
        SEARCH,
        "the state keeps the sentences that have left",
        "state.select(stay)",
        "state.select(torch.arange(len(stay)))",
        "beam_search::batched_search",
    ),
    Fault(
        BEAM,
        "the log-probabilities are those of the parent's place",
        "token_log_probs=_append(beams.token_log_probs, chosen.parents, token_log_probs),",
        "token_log_probs=_append(beams.token_log_probs, chosen.parents * 0, token_log_probs),",
        "beam_search::scores",
    ),
    # traced = untraced
    Fault(
        TRACE,
        "nobody is told that someone looks",
        "return self._root.wants(*(self._prefix + name for name in names))",
        "return False",
        "tracing::every_point_is_written",
    ),
    Fault(
        TRACE,
        "an edit is made on the way and then dropped",
        "value = _changed(name, value, change)",
        "_changed(name, value, change)",
        "causality::an_open_mask_lets_the_future_in",
    ),
    Fault(
        TRANSFORMER,
        "a decoder whose causal mask is kept uses no mask",
        "return Layout(attention_mask, bias=bias, angles=angles)",
        "return Layout(None if seen is None else attention_mask, bias=bias, angles=angles)",
        "tracing::all_points",
    ),
    # fused = by hand
    Fault(
        ATTENTION,
        "key heads are tiled, not interleaved",
        "k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)",
        "k, v = k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)",
        "fused::attend",
    ),
    Fault(
        ATTENTION,
        "the bias is forgotten by hand",
        'rescaled = trace("biased", rescaled + layout.bias.to(scores.dtype))',
        "pass",
        "fused::attend",
    ),
    Fault(
        "parts/activations.py",
        "a query that sees nothing is divided by 0",
        "exponentials / normaliser.masked_fill(normaliser == 0.0, 1.0)",
        "exponentials / normaliser",
        "fused::attend",
    ),
    Fault(
        ATTENTION,
        "mask and bias are joined without the mask",
        "return bias if mask is None else bias.masked_fill(~mask, -torch.inf)",
        "return bias",
        "fused::attend",
    ),
    Fault(
        NORMS,
        "layer norm by hand forgets eps",
        'normalised = trace("normalised", (x - mean) / (variance + self.eps).sqrt())\n'
        "        output = normalised * self.gain",
        'normalised = trace("normalised", (x - mean) / variance.sqrt())\n'
        "        output = normalised * self.gain",
        "fused::norms",
    ),
    Fault(
        RECURRENT,
        "the unrolled state runs on through padding",
        "hidden = torch.where(here, hidden, now[0])",
        "pass",
        "fused_recurrent::recurrent",
    ),
    Fault(
        RECURRENT,
        "an empty row's state moves",
        "hidden = torch.where(filled, ran.hidden, state.hidden)",
        "hidden = ran.hidden",
        "fused_recurrent::recurrent",
    ),
    Fault(
        RECURRENT,
        "the outputs of packed rows are not put back in place",
        "torch.zeros_like(justified).scatter(1, order.expand_as(justified), justified)",
        "justified",
        "fused_recurrent::the_state_passes_padding",
    ),
    Fault(
        "parts/recurrent_kernel.py",
        "the states of packed rows are not put back in place",
        "return output, _rows(RecurrentState(*after), packed.unsorted_indices)",
        "return output, RecurrentState(*after)",
        "dropped_recurrent::the_same_draws",
    ),
    Fault(
        RECURRENT,
        "the kernel is given all weights while some are hidden",
        "for tensor in weights[layer, way]]",
        "for tensor in self.weights(layer, way)]",
        "dropped_recurrent::weights_from_state_to_state_are_thinned_for_a_whole_pass",
    ),
    Fault(
        RECURRENT,
        "weights are hidden after training too",
        "if not self.training or self.weight_dropout == 0:",
        "if self.weight_dropout == 0:",
        "dropped_recurrent::afterwards_nothing_is_dropped",
    ),
    Fault(
        "parts/dropout.py",
        "locked dropout is drawn at every position",
        "x.new_empty(x.shape[0], 1, x.shape[2])",
        "x.new_empty(x.shape)",
        "dropped_recurrent::between_layers_a_number_is_hidden_at_all_positions",
    ),
    # padding, batches
    Fault(
        "parts/masks.py",
        "positions come from the padded index",
        "return positions(mask)",
        "return torch.arange(ids.shape[1], device=ids.device)[None].expand_as(ids)",
        "padding::padded",
    ),
    Fault(
        TRANSFORMER,
        "padding is attended to",
        'attention_mask = attention_mask & scope("padding", seen[:, None])',
        'scope("padding", seen[:, None])',
        "padding::padded",
    ),
    Fault(
        NORMS,
        "batch norm counts padding",
        "if mask is None or self.count_padding:",
        "if True:",
        "padding::padded_in_training",
    ),
    Fault(
        POSITIONS,
        "ALiBi takes the distances of the first row for all",
        "distance[:, None])",
        "distance[:1, None])",
        "padding::batched",
    ),
    Fault(
        "models/heads.py",
        "the mean is taken over padding too",
        "weight = weight / weight.sum(dim=1, keepdim=True).clamp(min=1)",
        "weight = weight / weight.shape[1]",
        "padding::batched",
    ),
    Fault(
        "models/recurrent.py",
        "the recurrent encoder reads padding",
        'outputs, state = self.recurrent(x, tokens.mask, trace=trace.at("recurrent"))',
        'outputs, state = self.recurrent(x, trace=trace.at("recurrent"))',
        "padding::padded",
    ),
    Fault(
        "parts/characters.py",
        "what stands behind the end of a word is a character",
        "self.table(characters) * (characters > 0)[..., None]",
        "self.table(characters)",
        "padding::batched",
    ),
    Fault(
        "parts/ngrams.py",
        "padding has n-gram features",
        "weight = counted[..., None].to(words.dtype)",
        "weight = torch.ones_like(words)",
        "padding::batched",
    ),
    Fault(
        "parts/ngrams.py",
        "padding is a neighbour",
        "last = nn.functional.pad(last, (1, -1), value=-1)",
        "last = torch.where(places > 0, places - 1, -1)",
        "padding::padded",
    ),
    # states
    Fault(
        FIXED,
        "the cursor of a fixed state stands still",
        "self.cursor += count",
        "pass",
        "states::fixed",
    ),
    Fault(
        FIXED,
        "a fixed state shows the slots behind those in use",
        "return False",
        "return super().everything_seen",
        "compile::a_step_with_a_fixed_state",
    ),
    Fault(
        CACHE,
        "trim leaves the counts",
        "self.counts = self.seen.sum(dim=2)",
        "pass",
        "states::trim",
    ),
    Fault(
        FIXED,
        "trim leaves the cursor",
        "self.cursor.fill_(length)",
        "pass",
        "states::trim",
    ),
    Fault(
        CACHE,
        "a copy shares its keys and values",
        "twin.keys, twin.values = self.keys.clone(), self.values.clone()",
        "pass",
        "states::copy",
    ),
    Fault(
        CACHE,
        "a copy shares its counts",
        "twin.counts = self.counts.clone()",
        "pass",
        "states::copy",
    ),
    # save, load
    Fault(
        NORMS,
        "running statistics are not saved",
        'self.register_buffer("running_mean", torch.zeros(d_model))',
        'self.register_buffer("running_mean", torch.zeros(d_model), persistent=False)',
        "save::state_dict",
    ),
    Fault(
        "parts/embedding.py",
        "the head gets a copy of the table",
        "self.linear.weight = tied.table.weight",
        "self.linear.weight = nn.Parameter(tied.table.weight.detach().clone())",
        "save::tied_weights_stay_tied",
    ),
    # torch.nn
    Fault(
        RECURRENT,
        "the GRU's update gate is turned round",
        "(1 - update) * candidate + update * hidden",
        "update * candidate + (1 - update) * hidden",
        "torch_cells::one_step",
    ),
    Fault(
        RECURRENT,
        "the LSTM's input and forget blocks are swapped",
        "input_sum, forget_sum, candidate_sum, output_sum = total.chunk(4, dim=-1)",
        "forget_sum, input_sum, candidate_sum, output_sum = total.chunk(4, dim=-1)",
        "torch_cells::one_step",
    ),
    Fault(
        RECURRENT,
        "the RNN forgets its second bias",
        "F.linear(state[0], u, b_hidden)",
        "F.linear(state[0], u)",
        "torch_cells::a_stack",
    ),
    Fault(
        TRANSFORMER,
        "the final norm is missing",
        'return self.final_norm(x, mask, trace.at("final_norm"))',
        "return x",
        "torch_transformer::transformer",
    ),
    Fault(
        ATTENTION,
        "the scores are divided by d_k, not by its root",
        "scale = 1 / math.sqrt(q.shape[-1])",
        "scale = 1 / q.shape[-1]",
        "torch_transformer::self_attention",
    ),
    Fault(
        "parts/residual.py",
        "the pre order normalises the skip too",
        'total = trace("sum", trace("skip", x)',
        'x = self.enter(x, mask)\n        total = trace("sum", trace("skip", x)',
        "torch_transformer::transformer",
    ),
    Fault(
        NORMS,
        "the running variance is the biased one",
        "unbiased = variance * count / (count - 1).clamp(min=1)",
        "unbiased = variance",
        "torch_transformer::batch_norm",
    ),
    # gradients
    Fault(
        NORMS,
        "no gradient through the mean of layer norm",
        'mean = trace("mean", x.mean(dim=-1, keepdim=True))',
        'mean = trace("mean", x.detach().mean(dim=-1, keepdim=True))',
        "gradients::norms",
    ),
    Fault(
        "parts/alignment.py",
        "no gradient through the alignment's pattern",
        'context = trace("context", pattern @ values)',
        'context = trace("context", pattern.detach() @ values)',
        "gradients::alignment",
    ),
    Fault(
        RECURRENT,
        "no gradient through time in the unrolled LSTM",
        'cell = trace("cell", forget * cell + write * candidate)',
        'cell = trace("cell", forget * cell.detach() + write * candidate)',
        "gradients::cells",
    ),
    Fault(
        "parts/characters.py",
        "no gradient through the loudest answers",
        "answers.amax(dim=2)",
        "answers.amax(dim=2).detach()",
        "gradients::characters",
    ),
    # causality
    Fault(
        "parts/masks.py",
        "the causal mask is off by one",
        "return keys[None, :] <= queries[:, None]",
        "return keys[None, :] <= queries[:, None] + 1",
        "causality::later_tokens_change_nothing",
    ),
    Fault(
        ATTENTION,
        "the kernel is not told that it is causal",
        "is_causal=layout.causal and mask is None",
        "is_causal=False",
        "causality::later_tokens_change_nothing",
    ),
    # positions
    Fault(
        POSITIONS,
        "rotary: cosine and sine are swapped",
        "even * cos - odd * sin, even * sin + odd * cos",
        "even * sin - odd * cos, even * cos + odd * sin",
        "positions::rotary_is_a_complex_product",
    ),
    Fault(
        POSITIONS,
        "rotary turns the wrong way in half of a pair",
        "even * cos - odd * sin",
        "even * cos + odd * sin",
        "positions::rotary_scores",
    ),
    # options of decoders
    Fault(
        "parts/rotary_scaling.py",
        "dynamic RoPE takes the base of the longest row",
        "longer = ((places + 1) / self.length)",
        "longer = ((places.max() + 1) / self.length)",
        "steps::step_by_step",
    ),
    Fault(
        "fast/decode_step.py",
        "the lean step forgets the query/key norm",
        "if norms:",
        "if False:",
        "lean_step::lean_step",
    ),
    Fault(
        "fast/decode_step.py",
        "the lean step forgets the attention factor",
        "else 1.0) * part.factor",
        "else 1.0)",
        "lean_step::lean_step",
    ),
    Fault(
        "fast/decode_step.py",
        "the lean step forgets a final norm behind post-norm layers",
        "if self.last is not None:",
        "if False:",
        "lean_step::lean_step",
    ),
    # torch.compile
    Fault(
        TRACE,
        "an unseen trace point copies its value",
        'return value\n\n    def at(self, scope: str) -> "NoTrace":',
        'return value.clone()\n\n    def at(self, scope: str) -> "NoTrace":',
        "compile::the_graph_is_that_of_a_model_without_trace",
    ),
    Fault(
        TRACE,
        "parts are told that someone looks when nobody does",
        "return False",
        "return True",
        "compile::the_graph_is_that_of_a_model_without_trace",
    ),
)
