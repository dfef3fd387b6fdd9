import ai.onnxruntime.*;
import com.fasterxml.jackson.databind.*;
import java.io.IOException;
import java.nio.*;
import java.nio.file.*;
import java.util.*;

/** A training step that onnxgrad.save_training_step wrote. Its state (weights, optimizer, counters) goes in and comes out of every run. */
class TrainingStep {
    final OrtEnvironment environment = OrtEnvironment.getEnvironment();
    final JsonNode manifest;
    final OrtSession session;
    final Map<String, OnnxTensor> state = new HashMap<>();

    /** Read the manifest, such as step.json, the model and the first values, which lie beside it. */
    TrainingStep(Path path) throws IOException, OrtException {
        manifest = new ObjectMapper().readTree(path.toFile());
        session = environment.createSession(path.resolveSibling(manifest.get("model").asText()).toString());
        var values = Files.readAllBytes(path.resolveSibling(manifest.get("values").asText()));
        for (var kind : List.of("state", "constants"))
            for (var entry : manifest.get(kind)) state.put(entry.get("name").asText(), read(entry, values));
    }

    private OnnxTensor read(JsonNode entry, byte[] values) throws OrtException {
        var bytes = ByteBuffer.wrap(values, entry.get("offset").asInt(), entry.get("bytes").asInt()).slice().order(ByteOrder.LITTLE_ENDIAN);
        var shape = new long[entry.get("shape").size()];
        for (int i = 0; i < shape.length; i++) shape[i] = entry.get("shape").get(i).asLong();
        switch (entry.get("dtype").asText()) {
            case "float32": return OnnxTensor.createTensor(environment, bytes.asFloatBuffer(), shape);
            case "int64": return OnnxTensor.createTensor(environment, bytes.asLongBuffer(), shape);
            default: throw new OrtException("no reader for " + entry.get("dtype"));
        }
    }

    /** Train on one batch; returns the fetches by name, which the caller closes. New state takes the place of the old. */
    Map<String, OnnxTensor> run(Map<String, OnnxTensor> feeds) throws OrtException {
        var inputs = new HashMap<>(state);
        inputs.putAll(feeds);
        var results = session.run(inputs);
        for (var entry : manifest.get("state"))
            state.put(entry.get("input").asText(), (OnnxTensor) results.get(entry.get("output").asText()).get()).close();
        var fetches = new HashMap<String, OnnxTensor>();
        for (var entry : manifest.get("fetches"))
            fetches.put(entry.get("name").asText(), (OnnxTensor) results.get(entry.get("name").asText()).get());
        return fetches;
    }
}
