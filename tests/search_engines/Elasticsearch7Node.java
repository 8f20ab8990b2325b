import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.elasticsearch.analysis.common.CommonAnalysisPlugin;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.transport.Netty4Plugin;

/** A node on the loopback interface. Arguments: its home, its HTTP port, its transport port. */
public class Elasticsearch7Node extends Node {
  Elasticsearch7Node(Environment environment, Collection<Class<? extends Plugin>> plugins) {
    super(environment, plugins, false);
  }

  public static void main(String[] arguments) throws Exception {
    Settings settings =
        Settings.builder()
            .put("path.home", arguments[0])
            .put("node.name", "test")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[1])
            .put("transport.port", arguments[2])
            .put("transport.type", "netty4")
            .put("http.type", "netty4")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
    Environment environment =
        InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "test");
    new Elasticsearch7Node(environment, List.of(Netty4Plugin.class, CommonAnalysisPlugin.class)).start();
    Thread.currentThread().join();
  }
}
